"""The claim of a leader on the config topic: each write is a transaction of its producer, and what is lost is told."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from penstock.client.errors import ClientError
from penstock.work.connect.distributed.claimed_log import TIMEOUT_MS, ClaimedLog
from penstock.work.connect.distributed.settings import Storage
from penstock.work.connect.runtime.logs import NotLeadingError


class Clients:
    """Producers that note what they are asked; `fails` are calls that raise, by name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.fails: dict[str, BaseException] = {}
        self._made = 0

    def producer(self, properties: Any, **more: Any) -> "Producer":
        self._made += 1
        self.lines.append(f"{self._made} made {properties} {more}")
        return Producer(self, self._made)

    def consumer(self, *_: Any, **__: Any) -> None: ...

    def forget(self) -> None:
        """What a log has that does not lead."""
        self.lines, self._made = [], 0


class Producer:
    def __init__(self, clients: Clients, number: int) -> None:
        self._clients, self._number = clients, number

    def __getattr__(self, name: str) -> Callable[..., Awaitable[None]]:
        async def call(*given: Any, **named: Any) -> None:
            self._clients.lines.append(f"{self._number} {name} {given or ''}{named or ''}".strip())
            if name in self._clients.fails:
                raise self._clients.fails[name]

        return call

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator["Producer"]:
        await self.__getattr__("begin")()
        yield self
        await self.__getattr__("commit")()


def claimed(clients: Clients) -> tuple[ClaimedLog, list[str]]:
    lost: list[str] = []
    storage, any_clients = Storage("configs", 1, 1, {}, is_automatic=False), cast("Any", clients)
    log = ClaimedLog(
        any_clients, storage, "w", lambda *_: None, transactional_id="group", on_loss=lambda: lost.append("lost")
    )
    clients.forget()
    return log, lost


MADE = {"client_id": "w", "linger_ms": 0, "transactional_id": "group", "transaction_timeout_ms": TIMEOUT_MS}


async def test_all_rows_are_one_transaction_of_who_has_claimed() -> None:
    clients = Clients()
    log, lost = claimed(clients)
    with pytest.raises(NotLeadingError, match=r"^w has not claimed configs$"):
        await log.put_all({b"k": b"v"})
    await log.claim()
    await log.put_all({b"k": b"v", b"gone": None})
    await log.claim()
    await log._drop()
    await log._drop()
    with pytest.raises(NotLeadingError):
        await log.put_all({b"k": b"v"})
    assert clients.lines == [
        f"1 made {{}} {MADE}",
        "1 start",
        "1 init_transactions",
        "1 begin",
        "1 send ('configs', b'v'){'key': b'k'}",
        "1 send ('configs', None){'key': b'gone'}",
        "1 commit",
        "1 close {'timeout_ms': 0}",
        f"2 made {{}} {MADE}",
        "2 start",
        "2 init_transactions",
        "2 close {'timeout_ms': 0}",
    ]
    assert lost == []


@pytest.mark.parametrize("call", ["start", "init_transactions"])
async def test_a_claim_that_fails_is_none(call: str) -> None:
    clients = Clients()
    log, lost = claimed(clients)
    clients.fails = {call: ClientError("not now")}
    with pytest.raises(ClientError, match="not now"):
        await log.claim()
    assert clients.lines[-1] == "1 close {'timeout_ms': 0}"
    with pytest.raises(NotLeadingError):
        await log.put_all({b"k": b"v"})
    assert lost == []


@pytest.mark.parametrize("call", ["begin", "send", "commit"])
@pytest.mark.parametrize(
    ("error", "raised"), [(ClientError("fenced"), NotLeadingError), (ValueError("odd"), ValueError)]
)
async def test_a_write_that_fails_loses_the_claim(call: str, error: Exception, raised: type[Exception]) -> None:
    clients = Clients()
    log, lost = claimed(clients)
    await log.claim()
    clients.fails = {call: error}
    words = r"^w could not write to configs: fenced$" if raised is NotLeadingError else "^odd$"
    with pytest.raises(raised, match=words):
        await log.put_all({b"k": b"v"})
    assert clients.lines[-1] == "1 close {'timeout_ms': 0}"
    assert lost == ["lost"]
    clients.fails = {}
    with pytest.raises(NotLeadingError, match="has not claimed"):
        await log.put_all({b"k": b"v"})
    assert lost == ["lost"]
