"""Connectors of a worker, asked over its REST interface: what runs, and where it failed. Configurations stay there."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from aiohttp import ClientError, ClientSession, ClientTimeout

from penstock.console.errors import ConsoleError
from penstock.console.query import MAX_ROWS, Query, number, text
from penstock.console.views.queries import MOST_READ, TRACE, Row, Task, part_of, queries
from penstock.console.watched import WatchedCluster

LIMIT_S: Final = 5.0
MOST_BYTES: Final = 8 * 1024 * 1024
PIPELINE: Final = "penstock.pipeline"
"""The class of a connector that is a pipeline."""
MAX_TASKS: Final = 200
"""Of pipelines that are asked for reports,"""
ASKED_AT_ONCE: Final = 4
"""and so many at once."""


class ConnectWorker:
    """`url` is any worker's, also one of Kafka Connect's own; None where there is none."""

    def __init__(self, url: str | None) -> None:
        self._url = None if url is None else url.rstrip("/")
        self._shown = without_user(self._url or "")

    async def connectors(self, watched: WatchedCluster, _: Query) -> dict[str, Any]:
        """Sorted by name."""
        if self._url is None:
            return {"worker": None, "connectors": [], "total": 0}
        found = await watched.looks.at("connectors", self._connectors)
        rows = [_connector(name, found[name]) for name in sorted(found)[:MAX_ROWS]]
        return {"worker": self._shown, "connectors": rows, "total": len(found)}

    async def pipelines(self, watched: WatchedCluster, query: Query) -> dict[str, Any]:
        """The queries of pipelines; with `topic` those that read or write it. `from` and `limit`: a window."""
        topic, first = text(query, "topic"), number(query, "from", 0)
        if self._url is None:
            return {"worker": None, "queries": [], "total": 0, "pipelines": 0}
        connectors = await watched.looks.at("connectors", self._connectors)
        tasks = {
            name: tasks_of(connectors[name]) for name in sorted(connectors) if _class(connectors[name]) == PIPELINE
        }
        found = await watched.looks.at("queries", lambda: self._queries(tasks))
        rows = [row for row in found if not topic or topic in (*row["reads"], row["writes"])]
        window = rows[first : first + number(query, "limit", 100, MAX_ROWS)]
        return {
            "worker": self._shown,
            "pipelines": len(tasks),
            "from": first,
            "total": len(rows),
            "queries": [row | {"reads": row["reads"][:MOST_READ]} for row in window],
        }

    async def _connectors(self) -> dict[str, Any]:
        async with self._session() as session:
            found = await self._ask(session, "connectors?expand=status&expand=info")
        if not isinstance(found, dict):
            raise ConsoleError(HTTPStatus.BAD_GATEWAY, f"what answers at {self._shown} is no worker")
        return found

    async def _queries(self, tasks: Mapping[str, Sequence[Task]]) -> list[Row]:
        """As tasks tell of them. A report may be large, and is let go before the next is asked for."""
        asking = asyncio.Semaphore(ASKED_AT_ONCE)

        async def of(session: ClientSession, name: str, task: Task) -> list[Row]:
            path = f"connectors/{quote(name, safe='')}/tasks/{quote(task['id'], safe='')}/report"
            async with asking:
                try:
                    report = part_of(await self._ask(session, path), "report")
                except ConsoleError as error:  # it moves, or its worker is gone: its row says so
                    report = {"unknown": str(error)}
                return queries(name, task, report)

        every = [(name, task) for name, of_it in tasks.items() for task in of_it][:MAX_TASKS]
        async with self._session() as session:
            return [row for rows in await asyncio.gather(*(of(session, *one) for one in every)) for row in rows]

    def _session(self) -> ClientSession:
        return ClientSession(timeout=ClientTimeout(total=LIMIT_S))

    async def _ask(self, session: ClientSession, path: str) -> Any:
        try:
            async with session.get(f"{self._url}/{path}") as answer:
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
    status = part_of(part_of(expanded, "status"), "connector")
    return {
        "name": name,
        "type": str(part_of(expanded, "status").get("type", "")),
        "state": str(status.get("state", "")),
        "worker": str(status.get("worker_id", "")),
        "trace": str(status.get("trace") or "")[:TRACE],
        "tasks": tasks_of(expanded),
    }


def tasks_of(expanded: Any) -> list[Task]:
    tasks = part_of(expanded, "status").get("tasks")
    return [
        {
            "id": str(task.get("id", "")),
            "state": str(task.get("state", "")),
            "worker": str(task.get("worker_id", "")),
            "trace": str(task.get("trace") or "")[:TRACE],
        }
        for task in (tasks if isinstance(tasks, list) else [])[:MAX_ROWS]
        if isinstance(task, dict)
    ]


def _class(expanded: Any) -> str:
    return str(part_of(part_of(expanded, "info"), "config").get("connector.class", ""))
