"""Connectors of a worker, asked over its REST interface: what runs, and where it failed. Configurations stay there."""

import json
import re
from http import HTTPStatus
from typing import Any, Final

from aiohttp import ClientError, ClientSession, ClientTimeout

from penstock.console.errors import ConsoleError
from penstock.console.query import MAX_ROWS

LIMIT_S: Final = 5.0
MOST_BYTES: Final = 8 * 1024 * 1024
TRACE: Final = 2_000
"""Characters of a failure."""


class ConnectWorker:
    """`url` is any worker's, also one of Kafka Connect's own; None where there is none."""

    def __init__(self, url: str | None) -> None:
        self._url = None if url is None else url.rstrip("/")
        self._shown = without_user(self._url or "")

    async def connectors(self) -> dict[str, Any]:
        """Sorted by name."""
        if self._url is None:
            return {"worker": None, "connectors": [], "total": 0}
        found = await self._ask(f"{self._url}/connectors?expand=status")
        if not isinstance(found, dict):
            raise ConsoleError(HTTPStatus.BAD_GATEWAY, f"what answers at {self._shown} is no worker")
        rows = [_connector(name, found[name]) for name in sorted(found)[:MAX_ROWS]]
        return {"worker": self._shown, "connectors": rows, "total": len(found)}

    async def _ask(self, url: str) -> Any:
        try:
            async with ClientSession(timeout=ClientTimeout(total=LIMIT_S)) as session, session.get(url) as answer:
                data = await answer.content.read(MOST_BYTES)
                while not answer.content.at_eof() and len(data) < MOST_BYTES:
                    data += await answer.content.read(MOST_BYTES - len(data))
                if answer.status != HTTPStatus.OK:
                    raise ConsoleError(HTTPStatus.BAD_GATEWAY, f"the worker at {self._shown} answers {answer.status}")
                return json.loads(data)
        except (ClientError, TimeoutError) as error:
            words = f"no worker at {self._shown} ({without_user(str(error)) or type(error).__name__})"
            raise ConsoleError(HTTPStatus.BAD_GATEWAY, words) from None
        except (ValueError, RecursionError):
            raise ConsoleError(HTTPStatus.BAD_GATEWAY, f"what answers at {self._shown} is no worker") from None


def without_user(text: str) -> str:
    """A password may stand in an address."""
    return re.sub(r"//[^/@\s]*@", "//", text)


def _connector(name: str, expanded: Any) -> dict[str, Any]:
    status = _part(_part(expanded, "status"), "connector")
    tasks = _part(expanded, "status").get("tasks")
    return {
        "name": name,
        "type": str(_part(expanded, "status").get("type", "")),
        "state": str(status.get("state", "")),
        "worker": str(status.get("worker_id", "")),
        "trace": str(status.get("trace") or "")[:TRACE],
        "tasks": [
            {
                "id": str(task.get("id", "")),
                "state": str(task.get("state", "")),
                "worker": str(task.get("worker_id", "")),
                "trace": str(task.get("trace") or "")[:TRACE],
            }
            for task in (tasks if isinstance(tasks, list) else [])[:MAX_ROWS]
            if isinstance(task, dict)
        ],
    }


def _part(found: Any, name: str) -> dict[str, Any]:
    part = found.get(name) if isinstance(found, dict) else None
    return part if isinstance(part, dict) else {}
