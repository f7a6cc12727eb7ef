"""The stored log, by example; that it does what the model of the ports does is in `test_stored_log_model`."""

import errno
from pathlib import Path

import pytest
from tests.unit.node.quorum.stores import Store, batch

from penstock.log.config import LogConfig
from penstock.log.disk import OpenFile
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.records import iterate_batches
from penstock.raft.ports import EpochEnd, SnapshotId


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path))


def spans(data: bytes) -> list[tuple[int, int]]:
    return [(header.base_offset, header.last_offset) for _, header in iterate_batches(data)]


def everything(store: Store) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    offset = store.log.start_offset
    while offset < store.log.end_offset:
        found += spans(store.log.read(offset, 1))
        offset = found[-1][1] + 1
    return found


def facts(store: Store) -> tuple[int, int, int, int]:
    log = store.log
    return log.start_offset, log.start_epoch, log.end_offset, log.last_epoch


def files(store: Store) -> list[str]:
    return [name for name in store.disk.names(store.directory) if name.endswith((".log", ".checkpoint"))]


def test_an_empty_log(store: Store) -> None:
    assert facts(store) == (0, 0, 0, 0)
    assert store.log.read(0, 100) == b""
    assert store.log.epoch_at(-1) == 0
    assert store.log.end_offset_for_epoch(7) == EpochEnd(0, 0)


def test_batches_keep_offsets_and_epochs(store: Store) -> None:
    store.append((1, 2), (1, 1), (3, 4))
    assert facts(store) == (0, 0, 7, 3)
    assert [store.log.epoch_at(offset) for offset in range(7)] == [1, 1, 1, 3, 3, 3, 3]
    assert everything(store) == [(0, 1), (2, 2), (3, 6)]


def test_what_was_damaged_on_its_way_is_refused_as_a_whole_and_told_once(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    good = batch(0, 1) + batch(1, 1)
    damaged = bytearray(good)
    damaged[-1] ^= 1
    for _ in range(3):  # the core fetches it again, and again
        with pytest.raises(DecodeError, match="CRC"):
            store.log.append(damaged)
    assert facts(store) == (0, 0, 0, 0)
    assert len(caplog.records) == 1
    store.log.append(bytearray(good))
    assert everything(store) == [(0, 0), (1, 1)]


def spoil(store: Store, place: int) -> None:
    """Flip a bit of the newest segment's file, counted from its beginning or, below 0, from its end."""
    path = Path(store.directory, [name for name in files(store) if name.endswith(".log")][-1])
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("place", [-1, 9, 16], ids=["a record", "the length", "the magic byte"])
def test_what_is_damaged_on_the_disk_is_not_served(store: Store, place: int) -> None:
    store.append((1, 1))
    spoil(store, place)
    with pytest.raises(KafkaError, match="damaged on this node's disk at offset 0") as refused:
        store.log.read(0, 1 << 20)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_what_lies_before_the_damage_is_served(store: Store) -> None:
    store.append((1, 1), (1, 1))
    spoil(store, -1)
    assert spans(store.log.read(0, 1 << 20)) == [(0, 0)]
    with pytest.raises(KafkaError, match="at offset 1"):
        store.log.read(1, 1 << 20)


def test_several_batches_come_at_once(store: Store) -> None:
    store.log.append(bytearray(batch(0, 1, 2) + batch(2, 2)))
    assert everything(store) == [(0, 1), (2, 2)]
    assert store.log.last_epoch == 2


def test_a_hole_is_refused(store: Store) -> None:
    store.append((1, 2))
    with pytest.raises(AssertionError, match="hole"):
        store.log.append(batch(3, 1))
    with pytest.raises(AssertionError, match="epochs"):
        store.log.append(batch(2, 0))


def test_a_read_gives_whole_batches_and_at_least_one(tmp_path: Path) -> None:
    store = Store(str(tmp_path), LogConfig())
    store.append((1, 2), (1, 2), (1, 2))
    size = len(batch(0, 1, 2))
    assert spans(store.log.read(3, 1)) == [(2, 3)]
    assert spans(store.log.read(0, 2 * size - 1)) == [(0, 1)]
    assert spans(store.log.read(0, 2 * size)) == [(0, 1), (2, 3)]
    assert len(store.log.read(0, 2 * size + 70)) == 2 * size
    assert spans(store.log.read(1, 10_000)) == [(0, 1), (2, 3), (4, 5)]
    assert store.log.read(6, 10_000) == b""


def test_the_largest_known_epoch_that_is_at_most_the_one_asked_for(store: Store) -> None:
    store.append((2, 3), (5, 2), (6, 1))
    ends = {epoch: store.log.end_offset_for_epoch(epoch) for epoch in (0, 1, 2, 4, 5, 6, 9)}
    assert ends == {
        0: EpochEnd(0, 0),
        1: EpochEnd(0, 0),
        2: EpochEnd(2, 3),
        4: EpochEnd(2, 3),
        5: EpochEnd(5, 5),
        6: EpochEnd(6, 6),
        9: EpochEnd(6, 6),
    }


@pytest.mark.parametrize(
    ("end_offset", "expected"),
    [
        (9, (0, 0, 9, 5)),
        (7, (0, 0, 7, 5)),
        (6, (0, 0, 5, 2)),  # in the middle of a batch: the batch goes
        (5, (0, 0, 5, 2)),
        (4, (0, 0, 3, 2)),
        (2, (0, 0, 0, 0)),
        (0, (0, 0, 0, 0)),
    ],
)
def test_a_cut_at_or_beside_the_boundary_of_an_epoch(
    store: Store, end_offset: int, expected: tuple[int, int, int, int]
) -> None:
    store.append((2, 3), (2, 2), (5, 2), (5, 2))
    store.log.truncate(end_offset)
    assert facts(store) == expected
    store.append((7, 1))
    assert store.log.last_epoch == 7
    assert store.log.end_offset_for_epoch(6).end_offset == expected[2]
    store.crash()
    assert store.log.last_epoch == 7
    assert store.log.end_offset_for_epoch(6).end_offset == expected[2]


def test_an_older_epoch_may_take_the_place_of_a_newer_one(store: Store) -> None:
    store.append((1, 2), (7, 3))
    store.log.truncate(2)
    store.append((5, 1))
    for _ in range(2):
        assert store.log.end_offset_for_epoch(7) == EpochEnd(5, 3)
        assert store.log.epoch_at(2) == 5
        store.crash()


def test_a_log_that_starts_behind_a_snapshot(store: Store) -> None:
    store.append((1, 5), (1, 5), (2, 5), (2, 5), (4, 5))
    snapshot = store.snapshot(15, 2)
    store.log.start_behind(snapshot)
    assert files(store)[0] != "00000000000000000000.log", "whole segments before it are gone"
    for restart in (None, store.restart, store.crash):
        if restart is not None:
            restart()
        assert facts(store) == (15, 2, 25, 4)
        assert everything(store) == [(15, 19), (20, 24)]
        assert store.log.epoch_at(14) == 2
        assert store.log.end_offset_for_epoch(1) == EpochEnd(2, 15)
        assert store.log.end_offset_for_epoch(3) == EpochEnd(2, 20)
        assert store.log.end_offset_for_epoch(4) == EpochEnd(4, 25)


def test_an_empty_log_behind_a_snapshot_of_all_its_records(store: Store) -> None:
    store.append((1, 5), (2, 5))
    store.log.start_behind(store.snapshot(10, 2))
    for restart in (None, store.restart, store.crash):
        if restart is not None:
            restart()
        assert facts(store) == (10, 2, 10, 2)
        assert store.log.read(10, 100) == b""
        assert store.log.end_offset_for_epoch(1) == EpochEnd(2, 10)
        assert store.log.end_offset_for_epoch(5) == EpochEnd(2, 10)
    store.append((2, 1), (3, 1))
    store.crash()
    assert facts(store) == (10, 2, 12, 3)


def test_a_log_that_begins_anew_behind_a_fetched_snapshot(store: Store) -> None:
    store.append((1, 5), (3, 5))
    store.log.start_anew(store.snapshot(100, 2))
    for restart in (None, store.restart, store.crash):
        if restart is not None:
            restart()
        assert facts(store) == (100, 2, 100, 2)
        assert store.log.end_offset_for_epoch(3) == EpochEnd(2, 100)
    store.append((2, 3))
    store.crash()
    assert facts(store) == (100, 2, 103, 2)
    assert store.log.end_offset_for_epoch(9) == EpochEnd(2, 103)
    assert files(store) == ["00000000000000000100-0000000002.checkpoint", "00000000000000000100.log"]


def test_a_snapshot_that_is_needed_no_more_is_left_to_threads(store: Store) -> None:
    """It may have some ten megabytes; a start finds it again by its name."""
    store.append((1, 5), (2, 5), (3, 5))
    for end_offset, epoch in ((5, 1), (10, 2), (15, 3)):
        store.log.start_behind(store.snapshot(end_offset, epoch))
    retired = f"{store.directory}/00000000000000000005-0000000001.checkpoint.deleted"
    assert Path(retired).is_file()
    assert retired in store.removals.take_due(0, 100)
    store.crash()
    assert retired in store.removals.take_due(0, 100)


def test_a_cut_back_to_the_start_leaves_an_empty_log(store: Store) -> None:
    store.append((1, 5), (2, 5), (3, 5))
    store.log.start_behind(store.snapshot(5, 1))
    for end_offset in (5, 0):
        store.log.truncate(end_offset)
        assert facts(store) == (5, 1, 5, 1)
    store.append((4, 1))
    store.crash()
    assert facts(store) == (5, 1, 6, 4)


def test_the_newest_snapshot_that_fits_is_where_a_log_starts(store: Store) -> None:
    store.append((1, 5), (2, 5))
    store.snapshot(5, 1)
    store.snapshot(10, 2)
    store.crash()
    assert facts(store) == (10, 2, 10, 2)


@pytest.mark.parametrize("snapshot", [SnapshotId(20, 2), SnapshotId(10, 3)])
def test_a_snapshot_that_the_log_does_not_reach_or_contradicts_changes_nothing(
    store: Store, snapshot: SnapshotId
) -> None:
    store.append((1, 5), (2, 5))
    store.snapshot(snapshot.end_offset, snapshot.epoch)
    store.crash()
    assert facts(store) == (0, 0, 10, 2)
    assert everything(store) == [(0, 4), (5, 9)]


def test_a_torn_tail_is_cut_off(store: Store) -> None:
    store.append((1, 2), (2, 2), (2, 2))
    store.partition.abandon()
    *_, last = (name for name in files(store) if name.endswith(".log"))
    path = Path(store.directory) / last
    path.write_bytes(path.read_bytes()[:-1])
    store.open()
    assert facts(store) == (0, 0, 4, 2)
    assert everything(store) == [(0, 1), (2, 3)]


def test_older_snapshots_go_when_the_log_is_cut_behind_newer_ones(store: Store) -> None:
    store.append(*[(1, 5)] * 6)
    for end_offset in (5, 10, 15):
        store.snapshot(end_offset, 1)
    assert len([name for name in files(store) if name.endswith(".checkpoint")]) == 3
    store.log.start_behind(SnapshotId(15, 1))
    assert [name for name in files(store) if name.endswith(".checkpoint")] == [
        "00000000000000000010-0000000001.checkpoint",
        "00000000000000000015-0000000001.checkpoint",
    ]


def test_a_flush_is_one_of_the_partitions_log(store: Store) -> None:
    store.append((1, 5))
    assert store.partition.recovery_point == 0
    store.log.flush()
    assert store.partition.recovery_point == 5


def test_a_disk_that_cannot_be_read_is_an_error_of_storage(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(file: OpenFile, length: int, position: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    store.append((1, 5))
    monkeypatch.setattr(OpenFile, "read_at", fail)
    with pytest.raises(KafkaError, match=r"offset 0: .*Input/output error") as refusal:
        store.log.read(0, 100)
    assert refusal.value.code == ErrorCode.KAFKA_STORAGE_ERROR
