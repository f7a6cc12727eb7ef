"""A small machine on a partition: how its records are read, and what becomes of a write that the log does not take."""

import asyncio
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.coordinator.tally import ReadWhole, Tally
from tests.unit.log.transactions import ended, verified, written
from tests.unit.node.group_node import GroupNode
from tests.unit.node.idle_groups import no_errands
from tests.unit.node.turns import until

from penstock.coordinator.effects import Append, Calculation, Cut, Effect, Errand, Reply
from penstock.coordinator.timers import Timer
from penstock.log.validation import AppendOrigin
from penstock.metadata.image import ClusterImage, PartitionImage
from penstock.node.coordinators import last_values
from penstock.node.coordinators.hosted import ANSWERS_AT_ONCE, WRITES_AT_ONCE, Hosted, Parked
from penstock.node.coordinators.last_values import AT_ONCE, LastValues
from penstock.node.environment.alarm import Turns
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.partition import Partition
from penstock.protocol.compression import Compression
from penstock.protocol.control.records import ControlType
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import CONSUMER_OFFSETS
from penstock.protocol.records import Record, encode_batch


async def led(directory: Path) -> Partition:
    """A partition that this node leads, and that nothing else lives on."""
    node = GroupNode(directory)
    node.create_offsets_topic()
    await node.groups.stop()
    return node.table.held[CONSUMER_OFFSETS, 0]


def write(partition: Partition, *records: tuple[bytes | None, bytes | None], compression: Compression) -> None:
    batch = encode_batch(
        [Record(timestamp_ms=0, key=key, value=value) for key, value in records], compression=compression
    )
    append(partition, memoryview(batch))


def append(partition: Partition, *batches: memoryview) -> None:
    for batch in batches:
        verified(partition.log, batch)
        partition.append(batch, acks=1, now_ms=0, origin=AppendOrigin.COORDINATOR)


async def served(partition: Partition, machine: Tally) -> Hosted[Tally]:
    hosted = Hosted(partition, machine, Turns(lambda: 0), Compression.NONE, no_errands(ClusterImage()))
    await hosted.read()
    await hosted.take_over()
    assert hosted.is_serving
    return hosted


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
async def test_a_machine_is_given_the_last_values_or_every_record(tmp_path: Path, compression: Compression) -> None:
    partition = await led(tmp_path)
    write(partition, (b"a", b"1"), (None, b"no key"), (b"a", b"2"), compression=compression)
    write(partition, (b"b", b"3"), (b"a", None), compression=compression)
    last_values, every_record = await served(partition, Tally()), await served(partition, ReadWhole())
    assert last_values.machine.taken_in == [(b"b", b"3"), (b"a", None)]
    assert every_record.machine.taken_in == [
        (b"a", b"1"),
        (b"", b"no key"),
        (b"a", b"2"),
        (b"b", b"3"),
        (b"a", None),
    ]
    assert last_values.machine.counts.of == every_record.machine.counts.of == {"b": 3}


async def test_others_have_their_turn_where_every_record_is_applied(tmp_path: Path) -> None:
    partition = await led(tmp_path)
    for number in range(600):
        write(partition, (f"{number}".encode(), b"1"), compression=Compression.NONE)
    machine = ReadWhole()
    hosted = Hosted(partition, machine, Turns(lambda: 0), Compression.NONE, no_errands(ClusterImage()))
    reading, seen = hosted.read(), [0]
    while seen[-1] < 600:
        reading.send(None)
        seen.append(len(machine.taken_in))
    reading.close()
    assert max(after - before for before, after in pairwise(seen)) < 300


async def test_others_have_their_turn_where_very_much_is_in_open_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where the partition is another's meanwhile, no more of it is read."""
    partition = await led(tmp_path)
    for sequence in range(500):
        append(partition, written(8, sequence, b"%d" % sequence, b"1"))
    machine, told = Tally(), list[bytes]()
    monkeypatch.setattr(machine, "read_pending", lambda _, key, value, is_overtaken: told.append(key))
    hosted = Hosted(partition, machine, Turns(lambda: 0), Compression.NONE, no_errands(ClusterImage()))
    reading = hosted.read()
    while not told:
        reading.send(None)
    assert len(told) == AT_ONCE
    hosted.resign()
    with pytest.raises(StopIteration):
        reading.send(None)
    assert len(told) == AT_ONCE


async def test_who_leads_no_more_puts_nothing_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_values, "SORTED_AT_ONCE", 2)
    partition = await led(tmp_path)
    for value in (b"1", b"2", b"3"):
        for key in (b"a", b"b", b"c", b"d"):
            write(partition, *((key + number, value) for number in (b"1", b"2", b"3")), compression=Compression.NONE)
    append(partition, written(8, 0, b"a", b"4"))
    entered = list[object]()
    monkeypatch.setattr(LastValues, "_last_of", lambda _, form: entered.append(form))
    hosted = Hosted(partition, Tally(), Turns(lambda: 0), Compression.NONE, no_errands(ClusterImage()))
    reading = hosted.read()
    reading.send(None)
    entered.clear()
    while not entered:
        reading.send(None)
    hosted.resign()
    with pytest.raises(StopIteration):
        reading.send(None)
    assert len(entered) == 1


async def test_a_machine_is_given_what_transactions_have_committed(tmp_path: Path) -> None:
    """A Kafka broker has left them: consumed offsets that were sent to a transaction."""
    partition = await led(tmp_path)
    write(partition, (b"a", b"10"), (b"b", b"20"), compression=Compression.NONE)
    append(partition, written(8, 0, b"a", b"99"), written(9, 0, b"b", b"21"))
    write(partition, (b"c", b"30"), compression=Compression.NONE)
    append(partition, ended(8, ControlType.ABORT), ended(9, ControlType.COMMIT))
    append(partition, written(8, 1, b"c", b"31"))
    last_values, every_record = await served(partition, Tally()), await served(partition, ReadWhole())
    expected = {"a": 10, "b": 21, "c": 30}
    assert last_values.machine.counts.of == every_record.machine.counts.of == expected


async def test_what_was_decided_after_a_write_that_fails_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = await led(tmp_path)
    hosted = await served(partition, Tally())
    assert hosted.ask(hosted.machine.add, "a", 1) == 1
    end = partition.log.log_end_offset

    def full(*batch: object, **how: object) -> None:
        monkeypatch.undo()  # the next one would be taken
        raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)

    monkeypatch.setattr(IsrPartition, "append", full)
    machine, first, second = hosted.machine, Parked(), Parked()
    hosted.run([*machine.add(first, "a", 2, 0), *machine.add(second, "a", 4, 0)])
    assert [first.response, second.response] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
    assert partition.log.log_end_offset == end
    assert machine.counts.of == {"a": 1}
    assert hosted.ask(machine.add, "a", 8) == 9


async def test_the_log_of_another_leader_is_neither_written_nor_cut(tmp_path: Path) -> None:
    partition = await led(tmp_path)
    hosted = await served(partition, Tally())
    assert hosted.ask(hosted.machine.add, "a", 1) == 1
    end = partition.log.log_end_offset
    partition.obey(1, PartitionImage(2, partition.leader_epoch + 1, 1, (1, 2), (1, 2)), 0)
    hosted.run([Append(7, [(b"b", b"1")]), Cut(end), Errand(7, Calculation(lambda: 1))])
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (0, end)


async def test_a_log_that_is_cut_keeps_what_was_written_anew(tmp_path: Path) -> None:
    partition = await led(tmp_path)
    hosted = await served(partition, Tally())
    for name in ("a", "b"):
        hosted.ask(hosted.machine.add, name, 1)
    before = partition.log.log_end_offset
    hosted.ask(hosted.machine.rewrite)
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (before, before + 2)
    again = await served(partition, Tally())
    assert again.machine.counts.of == {"a": 1, "b": 1}


def with_follower(partition: Partition) -> IsrPartition:
    """Broker 2 is in sync as well, so that nothing is committed that it has not fetched."""
    assert isinstance(partition, IsrPartition)
    partition.obey(1, PartitionImage(1, partition.leader_epoch, 9, (1, 2), (1, 2)), 0)
    return partition


async def test_a_write_is_answered_when_it_is_committed_and_no_sooner(tmp_path: Path) -> None:
    partition = await led(tmp_path)
    hosted = await served(partition, Tally())
    replica = with_follower(partition)
    first, second = (hosted.ask(hosted.machine.add, name, 1) for name in "ab")
    gone = hosted.ask(hosted.machine.add, "c", 1)
    assert all(isinstance(it, asyncio.Future) for it in (first, second, gone))
    gone.cancel()
    replica.on_fetched(2, 0, 9, 0)
    assert not first.done()
    replica.on_fetched(2, 1, 9, 0)
    assert (first.result(), second.done()) == (1, False)
    replica.on_fetched(2, 3, 9, 0)
    assert second.result() == 1
    assert not hosted._under_way
    later = hosted.ask(hosted.machine.add, "a", 1)
    hosted.resign()
    assert later.result() is ErrorCode.NOT_COORDINATOR
    assert not hosted.is_serving
    replica.on_fetched(2, 4, 9, 0)


@pytest.mark.parametrize(("committed", "asked", "begins"), [(2, 1, 1), (2, 2, 2), (2, 3, 2), (0, 3, 0)])
async def test_a_log_is_cut_no_further_than_it_is_committed(
    tmp_path: Path, committed: int, asked: int, begins: int
) -> None:
    partition = await led(tmp_path)
    hosted = await served(partition, Tally())
    replica = with_follower(partition)
    for name in "abc":
        hosted.ask(hosted.machine.add, name, 1)
    replica.on_fetched(2, committed, 9, 0)
    hosted.run([Cut(asked)])
    assert partition.log.log_start_offset == begins
    hosted.resign()


async def test_the_alarm_is_set_while_it_serves_and_time_passes(tmp_path: Path) -> None:
    partition = await led(tmp_path)
    hosted = Hosted(partition, Tally(), Turns(lambda: 0), Compression.NONE, no_errands(ClusterImage()))
    hosted.machine.agenda.timers.set(Timer(lambda now_ms: None), 5_000)
    hosted.run([])
    assert not hosted._alarm.is_set, "it does not serve yet"
    await hosted.read()
    await hosted.take_over()
    assert hosted._alarm.is_set
    hosted.pause()
    assert (hosted.is_paused, hosted._alarm.is_set) == (True, False)
    hosted.run([])
    assert not hosted._alarm.is_set
    hosted.go_on()
    assert (hosted.is_paused, hosted._alarm.is_set) == (False, True)
    hosted.resign()
    assert not hosted._alarm.is_set


@pytest.mark.parametrize("ended", ["pause", "resign"])
async def test_no_time_passes_for_who_waits_for_its_turn_and_is_let_alone_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: str
) -> None:
    hosted, woken = await served(await led(tmp_path), Tally()), list[int]()

    def noted(now_ms: int) -> list[Effect]:
        woken.append(now_ms)
        return []

    monkeypatch.setattr(hosted.machine, "wake", noted)
    monkeypatch.setattr(hosted.machine, "next_deadline_ms", lambda: None if woken else 0)
    hosted.run([])
    while hosted._alarm.is_set:
        await asyncio.sleep(0)
    getattr(hosted, ended)()
    for _ in range(5):
        await asyncio.sleep(0)
    assert woken == []
    if ended == "pause":
        hosted.go_on()
        await until(lambda: woken)
        hosted.resign()


async def test_it_serves_when_what_it_read_is_committed(tmp_path: Path) -> None:
    partition = await led(tmp_path)
    replica = with_follower(partition)
    write(partition, (b"a", b"1"), (b"b", b"2"), compression=Compression.NONE)
    hosted = Hosted(partition, Tally(), Turns(lambda: 0), Compression.NONE, no_errands(ClusterImage()))
    await hosted.read()
    taking_over = asyncio.ensure_future(hosted.take_over())
    await asyncio.sleep(0)
    assert not hosted.is_serving
    replica.on_fetched(2, 2, 9, 0)
    await taking_over
    assert hosted.is_serving
    hosted.resign()
    for one in (hosted, Hosted(partition, Tally(), Turns(lambda: 0), Compression.NONE, no_errands(ClusterImage()))):
        one.resign()
        await one.take_over()
        assert not one.is_serving


async def test_very_many_answers_leave_in_their_order_some_in_each_turn_of_the_loop(tmp_path: Path) -> None:
    hosted = await served(await led(tmp_path), Tally())
    parked = [Parked() for _ in range(3 * ANSWERS_AT_ONCE)]
    hosted.run([Reply(one, number) for number, one in enumerate(parked)])
    assert [one.response for one in parked[:ANSWERS_AT_ONCE]] == list(range(ANSWERS_AT_ONCE))
    later = hosted.ask(hosted.machine.add, "a", 1)
    answered: list[int] = []
    while len(answered) < 3:
        answered.append(sum(isinstance(one.response, int) for one in parked) // ANSWERS_AT_ONCE)
        assert not later.done()
        await asyncio.sleep(0)
    assert answered == [1, 2, 3]
    assert await later == 1


async def test_very_many_writes_that_one_move_of_the_mark_commits_are_reported_some_in_each_turn(
    tmp_path: Path,
) -> None:
    partition = await led(tmp_path)
    replica = with_follower(partition)
    hosted = await served(partition, Tally())
    answers = [hosted.ask(hosted.machine.add, "a", 1) for _ in range(3 * WRITES_AT_ONCE)]
    replica.on_fetched(2, 3 * WRITES_AT_ONCE, 9, 0)
    reported: list[int] = []
    while len(reported) < 3:
        reported.append(3 * WRITES_AT_ONCE - sum(1 for _ in hosted.machine.agenda.uncommitted()))
        await asyncio.sleep(0)
    assert reported == [WRITES_AT_ONCE, 2 * WRITES_AT_ONCE, 3 * WRITES_AT_ONCE]
    assert await asyncio.gather(*answers) == list(range(1, 3 * WRITES_AT_ONCE + 1))


async def test_who_hands_a_machine_over_has_all_of_them_reported_at_once(tmp_path: Path) -> None:
    partition = await led(tmp_path)
    replica = with_follower(partition)
    hosted = await served(partition, Tally())
    answers = [hosted.ask(hosted.machine.add, "a", 1) for _ in range(3 * WRITES_AT_ONCE)]
    replica.on_fetched(2, 3 * WRITES_AT_ONCE, 9, 0)
    hosted.report()
    assert list(hosted.machine.agenda.uncommitted()) == []
    assert len(await asyncio.gather(*answers)) == 3 * WRITES_AT_ONCE


async def test_an_answer_that_cannot_be_told_keeps_nobody_waiting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hosted = await served(await led(tmp_path), Tally())
    told, parked = list[object](), [Parked() for _ in range(3)]
    for one in parked:
        one.waiting()
        one.listen(cast("Any", SimpleNamespace(told=told.append)))
    parked[1].listen(cast("Any", SimpleNamespace(told=lambda _: told[7])))
    hosted.run([Reply(one, number) for number, one in enumerate(parked)])
    assert told == [0, 2]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
