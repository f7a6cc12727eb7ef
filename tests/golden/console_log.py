"""Topics in memory, and consumers of them that note what they are told: for the console's records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final

from penstock.client.errors import ConnectionFailedError
from penstock.client.values import EARLIEST, LATEST, ConsumedRecord, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError

KEYS: Final = (b"k0", b"K1", None, b"")


def _record(topic: str, partition: int, offset: int) -> ConsumedRecord:
    """Times of partitions cross; each third has the time of the one before."""
    time_ms = 1000 + 10 * (offset - offset % 3 // 2) + partition
    return ConsumedRecord(topic, partition, offset, time_ms, KEYS[offset % 4], f"V{offset}".encode())


def _large() -> list[ConsumedRecord]:
    headers: list[tuple[str, bytes | None]] = [("h", None), ("longer", b"\xff\x00 0123"), ("third", b"x")]
    values = (None, b"", b'{"n": 1.10}', b"0123456789", b"\x00\xff", "äöü€".encode())
    return [
        ConsumedRecord("large", 0, offset, 5, value, values[-1 - offset], headers if offset == 3 else [])
        for offset, value in enumerate(values)
    ]


class Log:
    """`t` has three partitions, `wide` has five, `open` a transaction that nobody has ended, `growing` and the first
    partition of `crowded` grow with each poll, `failing` fails under way. Both partitions of `mixed` end with what is
    no record: one never comes, the other one is passed over at the third poll that brings nothing.
    """

    def __init__(self) -> None:
        self._heard: list[str] = []
        self.records = {
            **{TopicPartition("t", n): [_record("t", n, offset) for offset in range(n, 5 + n)] for n in range(3)},
            **{TopicPartition("wide", n): [_record("wide", n, 0)] for n in range(5)},
            TopicPartition("open", 0): [_record("open", 0, offset) for offset in range(6)],
            TopicPartition("growing", 0): [_record("growing", 0, offset) for offset in range(2)],
            TopicPartition("failing", 0): [_record("failing", 0, offset) for offset in range(9)],
            TopicPartition("empty", 0): [],
            TopicPartition("long", 0): [_record("long", 0, offset) for offset in range(40)],
            TopicPartition("crowded", 0): [_record("crowded", 0, offset) for offset in range(2)],
            TopicPartition("crowded", 1): [_record("crowded", 1, offset) for offset in range(7)],
            **{TopicPartition("mixed", n): [_record("mixed", n, offset) for offset in range(2)] for n in range(2)},
            TopicPartition("large", 0): _large(),
        }

    def heard(self) -> list[str]:
        said, self._heard = self._heard, []
        return said

    def note(self, what: str) -> None:
        self._heard.append(f"- {what}")

    async def topic(self, name: str) -> Any:
        numbers = {one.partition: None for one in self.records if one.topic == name}
        if not numbers:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
        return SimpleNamespace(partitions=numbers)

    async def offsets(self, _: Any, asked: Mapping[TopicPartition, int]) -> tuple[dict[TopicPartition, Any], Any]:
        found = {one: self._offset(self.records[one], at) for one, at in asked.items()}
        more = {one: int(one.topic == "mixed" and at == LATEST) for one, at in asked.items()}
        return {one: SimpleNamespace(offset=offset + more[one]) for one, offset in found.items()}, {}

    def _offset(self, records: Sequence[ConsumedRecord], at: int) -> int:
        begin = records[0].offset if records else 7
        if at in (EARLIEST, LATEST):
            return begin if at == EARLIEST else begin + len(records)
        return next((one.offset for one in records if one.timestamp_ms >= at), -1)

    def consumer(self, servers: str, settings: Any, *, large_as_views: bool) -> Reader:
        assert (servers, large_as_views) == ("127.0.0.1:1", True)
        told = (settings.client_id, settings.isolation_level, settings.fetch_max_bytes, settings.fetch_max_wait_ms)
        self.note(f"a consumer {', '.join(map(str, told))}")
        return Reader(self, is_committed=settings.isolation_level == "read_committed")


class Reader:
    """Reads partition after partition."""

    def __init__(self, log: Log, *, is_committed: bool) -> None:
        self._log, self._is_committed = log, is_committed
        self._at: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._polls = self._nothing = 0
        self._last: list[ConsumedRecord] = []

    async def __aenter__(self) -> Reader:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._log.note(f"it is closed after {self._polls} polls")

    async def assign(self, partitions: Sequence[TopicPartition]) -> None:
        self._at = dict.fromkeys(partitions, -1)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._log.note(f"{partition} from {offset}")
        self._at[partition] = offset

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        self._paused.update(partitions)

    def positions(self) -> dict[TopicPartition, Any]:
        return {one: SimpleNamespace(offset=at) for one, at in self._at.items()}

    async def poll(self, wait_ms: int, most: int) -> list[ConsumedRecord]:
        assert wait_ms in (500, 5000)
        self._polls += 1
        assert not self._last, "what was read has been let go"
        if self._polls > 2 and self._names_one("failing", "growing"):
            raise ConnectionFailedError("the broker is gone")
        for one in self._at:
            if one.topic == "growing" or one == TopicPartition("crowded", 0):
                records = self._log.records[one]
                records.append(_record(one.topic, 0, len(records)))
        found: list[ConsumedRecord] = []
        for one, at in self._at.items():
            if one not in self._paused:
                ready = [row for row in self._log.records[one] if row.offset >= at]
                if self._is_committed and one.topic == "open":
                    ready = [row for row in ready if row.offset < 4]
                taken = ready[: most - len(found)]
                found += taken
                self._at[one] = taken[-1].offset + 1 if taken else at
        self._nothing += not found
        if self._nothing == 3 and TopicPartition("mixed", 1) in self._at:
            self._at[TopicPartition("mixed", 1)] = 3
        self._last = found
        return found

    def _names_one(self, *topics: str) -> bool:
        return any(one.topic in topics for one in self._at)
