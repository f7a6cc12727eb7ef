"""What a start believes of a log's files, and what it derives again."""

from pathlib import Path

import pytest
from tests.unit.log.logs import NOW, all_batches, append, batch, open_log
from tests.unit.log.transactions import append_all, ended, written

from penstock.log.config import LogConfig
from penstock.log.loading import Unread
from penstock.log.names import offset_prefix
from penstock.log.partition_log import PartitionLog
from penstock.log.segment import Segment
from penstock.protocol.control.records import ControlType
from penstock.protocol.records import Record, encode_batch

COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))
EPOCHS = "leader-epoch-checkpoint"


def numbers(unread: Unread) -> dict[str, object]:
    return {name: getattr(unread, name) for name in Unread.__slots__}


def test_a_log_that_was_moved_is_known_as_its_closed_copy_is(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    log, copy = (open_log(tmp_path / name) for name in ("a", "b"))
    append(log, batch(3))
    copy.truncate_fully_and_start_at(2)
    for _ in range(2):
        append(copy, batch(4))
    copy.truncate_to(6)
    copy.load().roll(6, NOW)
    append(copy, batch(1))
    copy.advance_log_start(4)
    copy.close()
    expected = {"is_clean": True, "recovery_point": 7, "start_offset": 4, "end_offset": 7, "rewritten_below": 10}
    assert numbers(copy._unread) == expected
    log.lend()
    log.take_back(is_whole=False)
    log.take_over(copy, copy.directory)
    assert numbers(log._unread) == expected
    assert (log.log_end_offset, log.recovery_point, log.is_loaded) == (7, 7, False)


@pytest.mark.parametrize("is_whole", [True, False])
def test_what_a_thread_has_cut_is_known_when_it_is_back(tmp_path: Path, *, is_whole: bool) -> None:
    log = open_log(tmp_path)
    for _ in range(3):
        append(log, batch(2))
    log.flush()
    content = log.lend()
    assert (log.recovery_point, log.is_trusted) == (6, False)
    content.cut_to(3)
    log.take_back(is_whole=is_whole)
    assert (log.recovery_point, log.is_trusted, log.is_loaded) == (0, is_whole, is_whole)
    assert (log.log_end_offset, log.load().rewritten_below) == (2, 6)


def closed(path: Path, config: LogConfig) -> PartitionLog:
    """Two segments of one producer's records, in two terms."""
    log = open_log(path, config)
    for number in range(6):
        append(log, batch(1, producer=(7, 0, number)), epoch=number // 4)
        if number == 2:
            log.load().roll(3, NOW)
    log.close()
    return log


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("newest", ["whole", "missing", "damaged"])
def test_producers_go_on_from_the_newest_snapshot_that_can_be_read(tmp_path: Path, is_clean: bool, newest: str) -> None:
    closed(tmp_path, LogConfig())
    snapshot = tmp_path / "t-0" / f"{offset_prefix(6)}.snapshot"
    if newest == "missing":
        snapshot.unlink()
    elif newest == "damaged":
        snapshot.write_bytes(snapshot.read_bytes()[:-1] + b"?")
    again = open_log(tmp_path, is_clean=is_clean, recovery_point=6)
    known = again.producers.get(7)
    assert known is not None
    assert [(one.first_offset, one.first_sequence) for one in known.batches] == [(it, it) for it in range(1, 6)]


def test_a_transaction_is_open_also_where_the_only_snapshot_of_a_clean_stop_is_damaged(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_all(log, written(8, 0), written(9, 0), ended(9, ControlType.ABORT))
    log.close()
    (snapshot,) = (tmp_path / "t-0").glob("*.snapshot")
    snapshot.write_bytes(snapshot.read_bytes()[:-1] + b"?")
    again = open_log(tmp_path, is_clean=True, recovery_point=3)
    assert again.last_stable_offset(3) == 0
    assert [one.last_offset for one in again.load().aborted.between(0, 3)] == [2]


def test_who_was_forgotten_when_a_snapshot_was_taken_is_not_known_by_older_records(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch(1, timestamp_ms=NOW, producer=(7, 0, 0)))
    append(log, batch(1, timestamp_ms=NOW + 50, producer=(8, 0, 0)))
    log.producers.expire(NOW + 60, 20)
    log.load().roll(2, NOW)
    append(log, batch(1, producer=(9, 0, 0)))
    log.abandon()
    again = open_log(tmp_path)
    assert sorted(one.producer_id for one in again.producers) == [8, 9]


@pytest.mark.parametrize("missing", [None, ".index", ".timeindex"])
def test_indexes_are_made_again_only_where_one_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str | None
) -> None:
    closed(tmp_path, LogConfig(index_interval_bytes=0))
    first = tmp_path / "t-0" / offset_prefix(0)
    if missing is not None:
        Path(f"{first}{missing}").unlink()
    rebuilt, rebuild = list[int](), Segment.rebuild_indexes

    def noting(segment: Segment, interval: int) -> None:
        rebuilt.append(segment.base_offset)
        rebuild(segment, interval)

    monkeypatch.setattr(Segment, "rebuild_indexes", noting)
    again = open_log(tmp_path, is_clean=True, recovery_point=6)
    assert [segment.largest_timestamp() for segment in again.segments] == [NOW, NOW]
    assert rebuilt == ([] if missing is None else [0])


@pytest.mark.parametrize("content", [None, b"", b"0\n1\n0 0\n", b"0\n2\n0 0\n1 x\n", b"\xff"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_epochs_are_those_of_the_batches_where_their_file_is_missing_or_damaged(
    tmp_path: Path, content: bytes | None, is_clean: bool
) -> None:
    """One that is whole is believed after a clean stop."""
    closed(tmp_path, LogConfig())
    file = tmp_path / "t-0" / EPOCHS
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    is_believed = is_clean and content in (None, b"0\n1\n0 0\n")
    again = open_log(tmp_path, is_clean=is_clean, recovery_point=6 if is_clean else 0)
    assert again.log_end_offset == 6
    if not is_believed:
        assert again.leader_epochs.entries == [(0, 0), (1, 4)]
        assert file.read_bytes() == b"0\n2\n0 0\n1 4\n"
    elif content is not None:
        assert again.leader_epochs.entries == [(0, 0)]


def test_a_damaged_file_of_epochs_is_replaced_though_there_are_none(tmp_path: Path) -> None:
    (file := tmp_path / "t-0" / EPOCHS).parent.mkdir()
    file.write_bytes(b"no")
    open_log(tmp_path).load()
    assert file.read_bytes() == b"0\n0\n"


@pytest.mark.parametrize("config", [LogConfig(), COMPACTED])
@pytest.mark.parametrize("recovery_point", [0, 4, 6])
def test_a_segment_that_begins_within_another_one_is_not_of_the_log(
    tmp_path: Path, config: LogConfig, recovery_point: int
) -> None:
    log = open_log(tmp_path)
    for _ in range(2):
        append(log, batch(2))
    log.abandon()
    stray = tmp_path / "t-0" / f"{offset_prefix(2)}.log"
    stray.write_bytes(encode_batch([Record(0, NOW, b"k", b"other")] * 4, base_offset=2))
    (tmp_path / "t-0" / EPOCHS).write_bytes(b"damaged")
    again = open_log(tmp_path, config, recovery_point=recovery_point)
    assert all_batches(again) == [(0, 1), (2, 3)]
    assert not stray.exists()


def test_a_recovery_writes_what_it_has_found(tmp_path: Path) -> None:
    """Of each segment that was checked both indexes, and the latest time of those that are sealed."""
    config = LogConfig(index_interval_bytes=0)
    closed(tmp_path, config)
    files = {path: path.read_bytes() for path in sorted((tmp_path / "t-0").glob("*index"))}
    assert len(files) == 4
    for path in files:
        path.write_bytes(b"nonsense")
    log = open_log(tmp_path, config)
    log.load()
    sealed = {path: content for path, content in files.items() if path.name.startswith(offset_prefix(0))}
    assert {path: path.read_bytes() for path in sealed} == sealed
    log.close()
    assert {path: path.read_bytes() for path in files} == files
