"""The transcript of a record that waits: two brokers, one partition, and the leader's log after each step."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from tests.simulation.delayed.hosts import Host, SteppedAlarm

from penstock.metadata.topics import PartitionImage
from penstock.node.partitions import delayed
from penstock.protocol.batch import DELAYED, BatchHeader
from penstock.protocol.delayed import CANCEL, CANCELS, DELAY, DELAY_ID, WAITED_AT, Held
from penstock.protocol.records import Record, encode_batch, iterate_records

BEGIN_MS = 1_700_000_000_000


class DelayedLecture:
    """Times are ms since the beginning."""

    def __init__(self, path: Path) -> None:
        self.now_ms = BEGIN_MS
        self.epoch = 0
        self.leader = 0
        self.hosts = [Host(number, path / str(number), lambda: self.now_ms) for number in range(2)]
        for host in self.hosts:
            host.boot()
        list(self._lead("0"))

    def handle(self, line: str) -> Iterable[str]:
        command, *words = line.split()
        return list(getattr(self, f"_{command}")(*words))

    def _lead(self, number: str) -> Iterator[str]:
        """It begins to, and the other one follows: what differs from the leader's log goes."""
        self.leader, self.epoch = int(number), self.epoch + 1
        leader, other = self.hosts[self.leader], self.hosts[1 - self.leader]
        for host in (leader, other):
            if host.partition is not None:
                host.obey(PartitionImage(self.leader, self.epoch, self.epoch, (0, 1), (0, 1)))
        if other.partition is not None:
            other.follow(leader)
        yield f"broker {number} leads"

    def _kill(self, number: str) -> Iterator[str]:
        self.hosts[int(number)].kill()
        return iter(())

    def _boot(self, number: str) -> Iterator[str]:
        self.hosts[int(number)].boot()
        return iter(())

    def _replicate(self) -> Iterator[str]:
        leader, other = self.hosts[self.leader], self.hosts[1 - self.leader]
        for _ in range(5):
            other.fetch(leader)
        return iter(())

    def _send(self, *words: str) -> Iterator[str]:
        """Values, each with its delay or an id where that stands behind it: `a+500`, `b`, `c+500=x`, `-x`."""
        batch = encode_batch([self._record(word) for word in words])
        result = self.hosts[self.leader].append(bytes(batch), acks=1)
        yield f"{self._now}: written at {result.base_offset}..{result.last_offset}"

    @staticmethod
    def _record(word: str) -> Record:
        if word.startswith("-"):
            return Record(0, BEGIN_MS, b"k", None, [(DELAY_ID, word[1:].encode()), (CANCEL, b"")])
        rest, _, id_ = word.partition("=")
        value, _, delay = rest.partition("+")
        headers: list[tuple[str, bytes | None]] = [(DELAY, delay.encode())] if delay else []
        return Record(0, BEGIN_MS, b"k", value.encode(), [*headers, *([(DELAY_ID, id_.encode())] if id_ else [])])

    @property
    def _now(self) -> int:
        return self.now_ms - BEGIN_MS

    def _at(self, now_ms: str) -> Iterator[str]:
        self.now_ms = BEGIN_MS + int(now_ms)
        return self._run()

    def _run(self) -> Iterator[str]:
        host = self.hosts[self.leader]
        before = host.log.log_end_offset
        while host.ring():
            pass
        for batch, header in host.batches(before, host.log.log_end_offset):
            yield f"{self._now}: {self._told(batch, header)}"

    def _log(self, number: str) -> Iterator[str]:
        host = self.hosts[int(number)]
        for batch, header in host.batches(host.log.log_start_offset, host.log.log_end_offset):
            yield f"broker {number}: {self._told(batch, header)}"

    @staticmethod
    def _told(batch: memoryview, header: BatchHeader) -> str:
        place = f"{header.base_offset}..{header.last_offset}"
        if header.is_held:
            held = Held(batch, header)
            rows = [
                "a cancellation" if row.due_ms == CANCELS else f"{_text(one.value)} until {row.due_ms - BEGIN_MS}"
                for row, one in zip(held.rows(), held.records(), strict=True)
            ]
            return f"{place} held: {', '.join(rows)}"
        records = list(iterate_records(batch, 0, header))
        if not header.attributes & DELAYED:
            return f"{place}: {', '.join(_text(one.value) for one in records)}"
        moved = [f"{_text(one.value)}, which waited at {_text(dict(one.headers)[WAITED_AT])}" for one in records]
        return f"{place}: {', '.join(moved)}"


def _text(value: bytes | None) -> str:
    return (value or b"").decode()


@pytest.fixture
def lecture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DelayedLecture:
    monkeypatch.setattr(delayed, "Alarm", SteppedAlarm)
    return DelayedLecture(tmp_path)


def test_lecture(transcript: Callable[[str, Callable[[str], Iterable[object]]], None], lecture: DelayedLecture) -> None:
    transcript("delayed.txt", lecture.handle)
