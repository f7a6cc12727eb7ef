"""A leader that delivers what waits in its log: over retention, deletions, restarts, and batches of very many."""

import asyncio
import errno
from functools import partial
from pathlib import Path

import pytest
from tests.simulation.delayed import hosts
from tests.simulation.delayed.hosts import Host, SteppedAlarm
from tests.simulation.delayed.world import as_full_as_it_is
from tests.unit.log.transactions import ended

from penstock.log.config import DAY_MS, LogConfig
from penstock.log.disk import OpenFile
from penstock.metadata.topics import PartitionImage
from penstock.node.environment.alarm import Turns
from penstock.node.partitions import delayed, held_records
from penstock.protocol.batch import DELAYED
from penstock.protocol.compression import Compression
from penstock.protocol.control.records import ControlType
from penstock.protocol.records import Record, encode_batch, iterate_records
from penstock.replication.delayed import machine, waiting
from penstock.replication.delayed.machine import MOST_MOVED

NOW_MS = 1_700_000_000_000
Headers = list[tuple[str, bytes | None]]


class One:
    """A partition on one broker."""

    def __init__(self, path: Path) -> None:
        self.time_ms = NOW_MS
        self.epoch = 0
        self.sequences: dict[int, int] = {}
        self.host = Host(0, path / "broker", lambda: self.time_ms)
        self.host.boot()
        self.lead()

    def lead(self) -> None:
        self.epoch += 1
        self.host.obey(PartitionImage(0, self.epoch, self.epoch, (0,), (0,)))

    def restart(self) -> None:
        self.host.kill()
        self.host.boot()
        self.lead()

    def send(self, *values: bytes | None, headers: Headers | None = None, codec: Compression = Compression.NONE) -> int:
        records = [Record(timestamp_ms=self.time_ms, key=b"k", value=value, headers=headers or []) for value in values]
        return self.host.append(bytes(encode_batch(records, compression=codec)), acks=-1).base_offset

    def send_in_transaction(self, *values: bytes | None, headers: Headers, producer: int = 7) -> int:
        records = [Record(timestamp_ms=self.time_ms, key=b"k", value=value, headers=headers) for value in values]
        sequence = self.sequences.get(producer, 0)
        self.sequences[producer] = sequence + len(records)
        numbers = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
        batch = encode_batch(records, is_transactional=True, **numbers)  # type: ignore[arg-type]
        return self.host.append(bytes(batch), acks=-1).base_offset

    def end(self, how: ControlType, producer: int = 7) -> None:
        self.host.append(bytes(ended(producer, how)), acks=-1)

    def run(self, later_ms: int = 0) -> int:
        """Everything that is to be done by then; how many steps that takes."""
        self.time_ms += later_ms
        steps = 0
        while self.host.ring():
            steps += 1
        return steps

    def waiting(self) -> tuple[int, int]:
        """How many records wait, and when the next one is due."""
        assert self.host.partition is not None
        assert self.host.partition.waiting is not None
        return self.host.partition.waiting

    def values(self) -> list[bytes | None]:
        """What a consumer reads from the beginning."""
        log, found = self.host.log, []
        for batch, header in self.host.batches(log.log_start_offset, log.log_end_offset):
            if not header.is_control:
                found += [one.value for one in iterate_records(batch, 0, header) if one.offset >= log.log_start_offset]
        return found


@pytest.fixture
def one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> One:
    monkeypatch.setattr(delayed, "Alarm", SteppedAlarm)
    monkeypatch.setattr(hosts, "CONFIG", LogConfig(segment_ms=DAY_MS, penstock_delay_enable=True))
    return One(tmp_path)


def in_days(days: int) -> Headers:
    return [("penstock-delay", b"%d" % (days * DAY_MS))]


def test_how_much_waits_and_since_when_it_is_due_is_known(one: One) -> None:
    one.send(b"at once")
    one.run()
    assert one.waiting() == (0, NOW_MS)
    one.send(b"later", b"too", headers=in_days(2))
    one.run()
    count, due_ms = one.waiting()
    assert count == 2
    assert NOW_MS < due_ms <= NOW_MS + 2 * DAY_MS
    one.time_ms += 2 * DAY_MS + 7_000  # the disk has failed since
    assert one.time_ms - one.waiting()[1] >= 7_000


def test_nothing_is_told_of_what_waits_before_the_log_is_read(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slot may have begun three days before what is in it is due: that is not late."""
    monkeypatch.setattr(delayed, "STEP_BATCHES", 1)
    for _ in range(3):
        one.send(b"later", headers=in_days(2))
    one.restart()
    assert one.host.partition is not None
    told = [one.host.partition.waiting]
    while one.host.ring():
        told.append(one.host.partition.waiting)
    assert told[:3] == [None] * 3
    assert one.waiting()[0] == 3
    assert all(it is None or it[1] > NOW_MS for it in told)


def test_how_much_waits_is_known_also_while_a_slot_with_very_many_is_opened(
    one: One, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a topic has less for as long as one of its partitions opens a slot."""
    monkeypatch.setattr(waiting, "MOST_OPENED", 10)
    one.send(*[b"later"] * 60, headers=in_days(2))
    one.run()
    assert one.host.partition is not None
    one.time_ms += 2 * DAY_MS - 1
    told = list[tuple[int, int] | None]()
    while one.host.ring():
        told.append(one.host.partition.waiting)
    assert len(told) >= 60 // 10
    assert all(it is not None and it[0] == 60 for it in told)


def test_a_record_that_waits_longer_than_retention_comes_and_stays(one: One) -> None:
    """Its segment goes, and it does not fall to retention when it comes with its old timestamp."""
    waits = one.send(b"later", headers=in_days(40))
    for _ in range(39):
        one.send(b"filler")
        one.run(DAY_MS)
        one.host.retain()
    assert one.host.log.log_start_offset > waits
    assert b"later" not in one.values()
    one.run(2 * DAY_MS)
    one.host.retain()
    assert one.values().count(b"later") == 1
    one.run(7 * DAY_MS - 1)
    one.host.retain()
    assert one.values() == [b"later"]
    one.send(b"filler")
    one.run(DAY_MS)
    one.host.retain()
    assert b"later" not in one.values()


def test_what_waits_outlives_deletion_and_comes_in_its_order(one: One) -> None:
    one.send(b"a", headers=in_days(2))
    one.send(b"now")
    one.send(b"b", headers=in_days(1))
    one.run()
    end = one.host.log.log_end_offset
    partition = one.host.partition
    assert partition is not None
    assert partition.leader is not None
    told: list[int] = []
    partition.leader.deletions.add(end + 9, lambda: told.append(one.host.log.log_start_offset))
    partition.delete_before(end)
    assert one.host.log.log_start_offset == 0, "first it is carried on"
    one.run()
    one.run(delayed.COMMIT_MS)
    assert one.host.log.log_start_offset == end
    assert told == [end], "who waits for a deletion is told how far it came"
    one.send(b"c", headers=in_days(1))
    one.restart()
    one.run(3 * DAY_MS)
    assert one.values() == [b"b", b"c", b"a"]


def test_who_delivers_does_not_read_again_what_it_wrote(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million may be due in a second."""

    def read_again(*_: object) -> None:
        pytest.fail("a delivered batch was read by its writer")

    monkeypatch.setattr(machine, "moved_in", read_again)
    one.send(b"a", b"b", headers=in_days(1))
    one.run(DAY_MS)
    assert one.values() == [b"a", b"b"]


def test_very_many_are_carried_on_by_and_by(one: One) -> None:
    values = [b"%d" % number for number in range(1_000)]
    one.send(*values, headers=in_days(1), codec=Compression.GZIP)
    one.send(b"x", headers=[("penstock-delay-id", b"x")])
    one.run()
    partition = one.host.partition
    assert partition is not None
    partition.delete_before(1_000)
    assert one.run(delayed.COMMIT_MS) >= 1_000 // 200
    assert one.host.log.log_start_offset == 1_000
    one.restart()
    one.run(2 * DAY_MS)
    assert one.values() == [b"x", *values]


def test_a_new_leader_knows_what_waits_and_what_has_come(one: One) -> None:
    one.send(b"a", headers=[("penstock-delay", b"10"), ("penstock-delay-id", b"x")])
    one.send(b"b", headers=[("penstock-delay", b"1000"), ("penstock-delay-id", b"y")])
    one.send(b"c", headers=[("penstock-delay", b"2000")])
    one.run(20)
    one.send(None, headers=[("penstock-delay-id", b"y"), ("penstock-delay-cancel", b"")])
    for _ in range(3):
        one.restart()
        one.run()
    one.run(5_000)
    assert one.values() == [b"a", b"c"]


@pytest.mark.parametrize("codec", Compression)
def test_very_many_in_one_batch_are_unpacked_by_and_by(one: One, codec: Compression) -> None:
    values = [b"%d" % number for number in range(5_000)]
    one.send(*values, headers=[("penstock-delay", b"1")], codec=codec)
    assert one.run(10) > len(values) // MOST_MOVED
    assert one.values() == values
    batches = one.host.batches(0, one.host.log.log_end_offset)
    moved = [header for _, header in batches if header.attributes & DELAYED and not header.is_control]
    assert {header.compression for header in moved} == {codec}


@pytest.mark.parametrize(("most", "batches"), [(1 << 20, 5), (150_000, 10)])
def test_what_comes_is_no_larger_than_what_may_be_sent(one: One, most: int, batches: int) -> None:
    one.host.log.config = one.host.log.config.replace(max_message_bytes=most)
    for _ in range(10):
        one.send(b"v", headers=[("penstock-delay", b"5"), ("large", bytes(100_000))])
    one.run(10)
    moved = [header for _, header in one.host.batches(0, one.host.log.log_end_offset) if not header.is_control]
    assert len(moved) == batches


def test_of_what_was_unpacked_little_stays_in_memory(one: One) -> None:
    """Of ten batches half goes now, half later; 30 MB unpacked, which they were sent in a few KB."""
    for _ in range(10):
        soon, later = [("penstock-delay", b"5")], [("penstock-delay", b"5000")]
        records = [Record(key=bytes(700_000), value=b"v", headers=list(it)) for it in (soon, later) * 2]
        one.host.append(bytes(encode_batch(records, compression=Compression.GZIP)), acks=-1)
    one.run(10)
    assert one.host.partition is not None
    delivery = one.host.partition.delivery
    assert isinstance(delivery, delayed.Delivery)
    assert len(one.values()) == 20
    parts = delivery._held._parts.values()
    assert sum(len(part.data) for part in parts) <= held_records.PARTS_BYTES
    assert 1 < len(parts) <= held_records.PARTS
    one.run(5_000)
    assert len(one.values()) == 40


@pytest.mark.parametrize(("batches", "parts", "cut_bytes"), [(2_000, 16, 64 << 20), (2, 1, 100), (1, 1, 0)])
def test_what_lies_in_many_batches_in_disorder_comes_in_order(
    one: One, monkeypatch: pytest.MonkeyPatch, batches: int, parts: int, cut_bytes: int
) -> None:
    """However little of it is remembered, and though some was cut out and is cancelled then."""
    monkeypatch.setattr(held_records, "BATCHES", batches)
    monkeypatch.setattr(held_records, "PARTS", parts)
    monkeypatch.setattr(held_records, "CUT_BYTES", cut_bytes)
    due = [(number * 37 % 100, number) for number in range(300)]
    for begin in range(0, 300, 20):
        records = [
            Record(timestamp_ms=NOW_MS, value=b"%d" % number, headers=[("penstock-delay", b"%d" % (500 + after_ms))])
            for after_ms, number in due[begin : begin + 20]
        ]
        one.host.append(bytes(encode_batch(records)), acks=-1)
    one.send(b"x", headers=[("penstock-delay", b"590"), ("penstock-delay-id", b"x")])
    one.run(520)
    one.send(None, headers=[("penstock-delay-id", b"x"), ("penstock-delay-cancel", b"")])
    one.run(480)
    assert one.values() == [b"%d" % number for _, number in sorted(due)]
    assert one.host.partition is not None
    delivery = one.host.partition.delivery
    assert isinstance(delivery, delayed.Delivery)
    assert len(delivery._held._batches) <= batches
    assert len(delivery._held._bases) == len(delivery._held._batches)
    assert delivery._held._cut_bytes == sum(len(due.body) for due, _ in delivery._held._cut.values())
    assert not delivery._held._cut, "what was cancelled"


def test_what_was_cut_out_and_is_cancelled_is_forgotten_while_others_come(
    one: One, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something is due all the time: it never rests."""
    monkeypatch.setattr(held_records, "FEW_BYTES", 1_000)
    named: Headers = [("penstock-delay", b"900"), ("penstock-delay-id", b"x")]
    records = [Record(timestamp_ms=NOW_MS, value=b"b" * 100, headers=named)] * 20
    for _ in range(50):
        records[0] = Record(timestamp_ms=NOW_MS, value=b"a", headers=[("penstock-delay", b"890")])
        one.host.append(bytes(encode_batch(records)), acks=-1)
        one.run(890)
        one.send(None, headers=[("penstock-delay-id", b"x"), ("penstock-delay-cancel", b"")])
        one.send(b"next", headers=[("penstock-delay", b"2000")])
        one.run(5)
    delivery = one.host.partition.delivery if one.host.partition is not None else None
    assert isinstance(delivery, delayed.Delivery)
    assert one.values().count(b"a") == 50
    assert b"b" * 100 not in one.values()
    assert 0 < delivery._held._cut_bytes <= 1_300


def test_who_has_nothing_to_do_for_some_time_remembers_nothing(one: One) -> None:
    one.send(*[b"v%d" % number for number in range(500)], headers=[("penstock-delay", b"1000")])
    one.send(b"tomorrow", headers=in_days(1))
    one.run(1_000)
    assert len(one.values()) == 500
    delivery = one.host.partition.delivery if one.host.partition is not None else None
    assert isinstance(delivery, delayed.Delivery)
    held = delivery._held
    assert not any((held._batches, held._bases, held._parts, held._cut, held._parts_bytes, held._cut_bytes))
    one.run(DAY_MS)
    assert one.values()[-1] == b"tomorrow"


def test_a_clock_that_was_set_back_delivers_nothing_early(one: One) -> None:
    one.send(b"a", headers=[("penstock-delay", b"1000")])
    one.run()
    one.time_ms -= 3_600_000
    one.send(b"b", headers=[("penstock-delay", b"1000")])
    one.run(1_000)
    assert one.values() == [b"b"]
    one.run(3_600_000 - 1)
    assert one.values() == [b"b"]
    one.run(1)
    assert one.values() == [b"b", b"a"]


def test_a_full_disk_is_told_once_and_what_is_due_comes_when_there_is_room(
    one: One, caplog: pytest.LogCaptureFixture
) -> None:
    one.send(b"a", headers=[("penstock-delay", b"1")])
    one.host.is_full = True
    with caplog.at_level("INFO"), as_full_as_it_is(one.host):
        for _ in range(3):
            one.run(delayed.RETRY_MS)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "no room" in caplog.text
    assert one.values() == []
    with caplog.at_level("INFO"):
        one.run(delayed.RETRY_MS)
    assert one.values() == [b"a"]
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]


def test_who_leads_no_longer_delivers_nothing(one: One) -> None:
    one.send(b"a", headers=[("penstock-delay", b"1")])
    one.host.obey(PartitionImage(1, 2, 2, (0, 1), (0, 1)))
    one.run(10)
    assert one.values() == []
    assert one.host.partition is not None
    assert one.host.partition.delivery is None
    assert one.host.partition.needed_from == one.host.log.log_start_offset, "its leader says where the log begins"


def test_what_has_stopped_is_not_waited_for_by_anybody(one: One) -> None:
    partition = one.host.partition
    assert partition is not None
    assert partition.delivery is not None
    assert partition.leader is not None
    one.run()
    assert len(partition.leader.appended) == 1
    partition.delivery.stop()
    assert not len(partition.leader.appended)


async def test_however_many_partitions_have_something_due_one_delivers_in_a_turn_of_the_loop(one: One) -> None:
    partition, turns = one.host.partition, Turns(one.host.now_ms)
    assert partition is not None
    one.send(b"a", headers=[("penstock-delay", b"1")])
    one.run()
    others: list[str] = []
    turns.add(lambda: others.append("first"))
    partition.stop_delivering()
    partition.deliver(turns)
    one.time_ms += 10
    one.host.ring()
    turns.add(lambda: others.append("second"))
    await asyncio.sleep(0)
    assert (others, one.values()) == (["first"], [])
    await asyncio.sleep(0)
    assert (others, one.values()) == (["first"], [b"a"])
    one.host.ring()
    partition.stop_delivering()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert others == ["first", "second"]


def test_a_disk_that_cannot_be_read_fails_as_it_does_for_all_that_read_it(
    one: One, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one.send(b"a", headers=[("penstock-delay", b"1")])
    monkeypatch.setattr(OpenFile, "read_at", partial(_broken, OSError(errno.EIO, "broken")))
    one.run(10)
    assert one.host.log.health.failure is not None
    assert "what is due waits" in caplog.text


def _broken(error: OSError, *_: object) -> bytes:
    raise error


def test_nothing_that_waits_is_deleted_where_nobody_can_carry_it_on(one: One) -> None:
    """A node that stops delivers no longer, and may still be asked to delete."""
    one.send(b"a", headers=[("penstock-delay", b"1000")])
    one.run()
    partition = one.host.partition
    assert partition is not None
    partition.stop_delivering()
    partition.delete_before(1)
    assert one.host.log.log_start_offset == 0
    one.restart()
    one.run(1_000)
    assert one.values() == [b"a"]
