"""A topic that others write to as well: what nobody can read costs nothing but itself."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.admin.topics import NewTopic
from penstock.client.values import ConsumedRecord, TopicPartition
from penstock.protocol.errors import DecodeError
from penstock.work.connect.clients import Clients
from penstock.work.connect.distributed import topic_log
from penstock.work.connect.distributed.settings import Storage
from penstock.work.connect.distributed.topic_log import TopicError, TopicLog
from penstock.work.connect.runtime.config_state import ConfigState
from penstock.work.connect.runtime.logs import OnRecord
from penstock.work.connect.runtime.records import offset_key
from penstock.work.connect.runtime.source_offsets import SourceOffsets
from penstock.work.connect.runtime.statuses import Statuses

HERE = TopicPartition("o", 0)
NESTED = b"[" * 100_000
GARBAGE = (b"not json", b"\xff", b"", b"7", b'{"generation":1e999,"state":"X","worker_id":"w"}', NESTED)


class Consumer:
    """Brings these records, then waits for ever."""

    def __init__(self, records: list[tuple[bytes | None, bytes | None]]) -> None:
        self._records = [ConsumedRecord("o", 0, at, 0, key, value) for at, (key, value) in enumerate(records)]
        self._end = len(records)
        self.failures: list[Exception] = []

    async def poll(self, timeout_ms: int) -> list[ConsumedRecord]:
        if self.failures:
            raise self.failures.pop()
        if not self._records:
            await self.waits()
        records, self._records = self._records, []
        return records

    async def waits(self) -> None:
        await asyncio.Event().wait()

    async def position(self, partition: TopicPartition) -> int:
        return self._end


async def read(on_record: OnRecord, records: list[tuple[bytes | None, bytes | None]]) -> TopicLog:
    """A log that has read all of them."""
    storage = Storage("o", 1, 1, {}, is_automatic=False)
    log: Any = TopicLog(Clients(bootstrap_servers="127.0.0.1:1"), storage, "worker", on_record)
    log._positions, log._consumer = {HERE: 0}, Consumer(records)
    reading = asyncio.create_task(log._read())
    async with log._progress:
        waiting = asyncio.create_task(log._progress.wait())
        await asyncio.wait([reading, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
    assert not reading.done(), "it reads no more"
    reading.cancel()
    assert log._positions == {HERE: len(records)} == {HERE: log.end}
    made: TopicLog = log
    return made


async def test_offsets_that_are_none_are_passed_over_and_named(caplog: pytest.LogCaptureFixture) -> None:
    offsets = SourceOffsets(lambda _: None)  # type: ignore[arg-type, return-value]
    good = offset_key("c", {"p": 1})
    keys = [*GARBAGE, b'["c",{}]', None]
    await read(offsets._read, [(good, b'{"at":1}'), *((key, b"not json") for key in keys), (good, NESTED)])
    assert offsets.all_of("c") == [({"p": 1}, {"at": 1})]
    assert "worker passes over what it cannot read in o-0 at offset 7: JSONDecodeError" in caplog.text
    assert "o-0 at offset 9: RecursionError" in caplog.text


@pytest.mark.parametrize("prefix", ["connector-", "task-", "commit-", "target-state-", "tasks-fencing-", "session-key"])
async def test_whatever_is_in_the_topic_of_configurations_the_next_record_is_read(prefix: str) -> None:
    state = ConfigState()
    keys = [f"{prefix}c-0".encode(), f"{prefix}c".encode(), prefix.encode(), *GARBAGE]
    rows: list[tuple[bytes | None, bytes | None]] = [(key, value) for key in keys for value in (*GARBAGE, None)]

    def on_record(key: bytes, value: bytes | None, _: int) -> None:
        state.apply(key.decode("utf-8", "replace"), value)

    await read(on_record, [*rows, (b"connector-d", b'{"properties":{"name":"d"}}')])
    assert state.connectors["d"].config == {"name": "d"}


@pytest.mark.parametrize("prefix", ["status-connector-", "status-task-", "status-topic-"])
async def test_whatever_is_in_the_topic_of_statuses_the_next_record_is_read(prefix: str) -> None:
    statuses = Statuses("w", lambda *_: None)
    keys = [f"{prefix}c-0".encode(), f"{prefix}c".encode(), prefix.encode(), *GARBAGE]
    rows: list[tuple[bytes | None, bytes | None]] = [(key, value) for key in keys for value in (*GARBAGE, None)]
    told = b'{"state":"RUNNING","worker_id":"w","generation":1}'
    await read(statuses.read, [*rows, (b"status-connector-d", told)])
    assert statuses.connectors() == ["d"]


class Admin:
    """Of a cluster in which the topic is, or is not, and has this policy. Notes what it is asked."""

    def __init__(self, *, is_there: bool, policy: str | None) -> None:
        self.lines: list[str] = []
        self.topics = self.configs = self.cluster = self
        self._is_there, self._policy = is_there, policy

    async def __aenter__(self) -> "Admin":
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def retrying(self, ask: Callable[[], Awaitable[Any]], passing: object) -> Any:
        return await ask()

    async def is_there(self, topic: str) -> bool:
        return self._is_there

    async def create_unless_there(self, new: NewTopic) -> None:
        self.lines.append(f"made {new.name} {new.partitions} {new.replication_factor} {dict(new.configs)}")

    async def wait_until_led(self, topic: str) -> None:
        self.lines.append(f"waited for {topic}")

    async def describe(self, kind: object, topic: str) -> list[Any]:
        return [] if self._policy is None else [SimpleNamespace(name="cleanup.policy", value=self._policy)]


@pytest.mark.parametrize(
    ("is_automatic", "is_there", "policy", "words"),
    [
        (True, False, "compact", None),
        (True, True, None, None),
        (False, True, "compact", None),
        (False, False, "compact", "topic o is missing, and "),
        (True, True, "delete", "topic o has cleanup.policy=delete, and would forget: it must be compact"),
        (False, True, "compact,delete", "topic o has cleanup.policy=compact,delete, and would forget"),
    ],
)
async def test_the_topic_is_there_and_keeps_what_is_in_it(
    is_automatic: bool, is_there: bool, policy: str | None, words: str | None
) -> None:
    admin = Admin(is_there=is_there, policy=policy)
    storage = Storage("o", 5, 2, {"cleanup.policy": "compact"}, is_automatic=is_automatic)
    log: Any = TopicLog(Clients(bootstrap_servers="127.0.0.1:1"), storage, "worker", lambda *_: None)
    log._clients = SimpleNamespace(admin=lambda name: admin)
    if words is None:
        await log._make()
    else:
        with pytest.raises(TopicError) as raised:
            await log._make()
        assert str(raised.value).startswith(words)
    made = ["made o 5 2 {'cleanup.policy': 'compact'}"] * is_automatic
    assert admin.lines == made + ["waited for o"] * (is_automatic or is_there)


class Quiet(Consumer):
    """Brings nothing more, at once."""

    async def waits(self) -> None:
        await asyncio.sleep(0)


async def test_whatever_fails_a_topic_is_read_and_written_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker would go on with its tasks, and hear nothing any more."""
    monkeypatch.setattr(topic_log, "PAUSE_S", 0)
    storage = Storage("o", 1, 1, {}, is_automatic=False)
    looked, written, failures = asyncio.Event(), asyncio.Queue[bytes](), [KeyError("look"), KeyError("put")]

    def look() -> None:
        if len(failures) == 2:
            raise failures.pop(0)
        looked.set()

    async def put(key: bytes, value: bytes | None) -> None:
        if failures:
            raise failures.pop()
        written.put_nowait(key)

    log: Any = TopicLog(Clients(bootstrap_servers="127.0.0.1:1"), storage, "worker", lambda *_: None, look)
    log._positions, log._consumer, log.put = {HERE: 0}, Quiet([(b"k", b"v")]), put
    log._consumer.failures = [DecodeError("a batch"), TypeError("a fault")]
    working = [asyncio.create_task(log._read()), asyncio.create_task(log._post())]
    async with asyncio.timeout(10):
        await looked.wait()
        log.post(b"lost", b"v")
        log.post(b"written", b"v")
        assert await written.get() == b"written"
        await log._posted.join()
    assert not any(one.done() for one in working)
    for one in working:
        one.cancel()
    for words in ("read o: DecodeError", "read o: TypeError", "read o: KeyError", "write b'lost' to o: KeyError"):
        assert words in caplog.text


async def test_of_what_is_posted_while_nothing_can_be_written_the_last_of_each_key_counts() -> None:
    """A cluster may be away for hours, and tasks that start again and again say so each time."""
    storage, is_back = Storage("o", 1, 1, {}, is_automatic=False), asyncio.Event()
    written: list[tuple[bytes, bytes | None]] = []
    log: Any = TopicLog(Clients(bootstrap_servers="127.0.0.1:1"), storage, "worker", lambda *_: None)

    async def put(key: bytes, value: bytes | None) -> None:
        written.append((key, value))
        await is_back.wait()

    log.put = put
    writing = asyncio.create_task(log._post())
    log.post(b"a", b"first")
    await asyncio.sleep(0)
    for number in range(1_000):
        for key in (b"a", b"b"):
            log.post(key, b"%d" % number)
    log.post(b"a", None)
    assert (log._posted.qsize(), len(log._values)) == (2, 2)
    is_back.set()
    async with asyncio.timeout(10):
        await log._posted.join()
    assert written == [(b"a", b"first"), (b"a", None), (b"b", b"999")]
    assert log._values == {}
    writing.cancel()
