"""Several log directories, and where the metadata log lies."""

import errno
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from tests.unit.log.directories.opened import CONFIG, TOPIC_ID, open_directories, write_high_watermarks
from tests.unit.log.logs import NOW, append, batch
from tests.unit.log.removed import remove_due

from penstock.log.directories.errors import (
    BadMetaPropertiesError,
    DamagedDirectoryError,
    ForeignDirectoryError,
    LockedDirectoryError,
    MisplacedMetadataError,
    UnusableDirectoryError,
)
from penstock.log.directories.log_directory import ROOM_BYTES, LogDirectory
from penstock.log.directories.opening import Opening
from penstock.log.disk import Disk
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import CLUSTER_METADATA, CLUSTER_METADATA_ID


def test_leftovers_of_a_deletion_go_after_a_restart(tmp_path: Path) -> None:
    directories = open_directories(tmp_path)
    directories.delete(directories.create("t", 0, TOPIC_ID, CONFIG), NOW)
    directories.close()
    again = open_directories(tmp_path)
    assert again.logs == {}
    assert remove_due(again, 0) == 1
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []
    again.close()


def test_a_disk_that_hangs_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    directories = open_directories(tmp_path / "a", tmp_path / "b")
    hung, well = (directories.threads_of(directories.create("t", number, TOPIC_ID, CONFIG)) for number in range(2))
    goes_on = Event()
    waiting = [hung.submit(goes_on.wait) for _ in range(100)]
    assert well.submit(lambda: "done").result(10) == "done"
    goes_on.set()
    assert all(one.result(10) for one in waiting)
    directories.close()
    with pytest.raises(RuntimeError, match="after shutdown"):
        well.submit(goes_on.wait)


def test_partitions_spread_over_directories_and_high_watermarks_lie_beside_them(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    directories = open_directories(*paths)
    for partition in range(4):
        append(directories.create("t", partition, TOPIC_ID, CONFIG), batch(1))
    write_high_watermarks(directories, {("t", partition): partition for partition in range(4)})
    assert directories.checkpoints.high_watermarks(directories.logs) == {
        ("t", partition): partition for partition in range(4)
    }
    descriptions = directories.describe()
    assert [description.path for description in descriptions] == [str(path) for path in paths]
    assert not any(description.is_cordoned or description.failure for description in descriptions)
    assert all(description.total_bytes >= description.usable_bytes > 0 for description in descriptions)
    directories.close()
    again = open_directories(*paths)
    assert len(again.logs) == 4
    again.close()


def test_errors_name_cause_and_cure(tmp_path: Path) -> None:
    first = open_directories(tmp_path, cluster_id="one")
    with pytest.raises(
        LockedDirectoryError, match=r"another process uses the log directory .*: stop it or set log.dirs"
    ):
        open_directories(tmp_path)
    first.close()
    with pytest.raises(ForeignDirectoryError, match=r"belongs to node.id 1, this node has node.id 2"):
        open_directories(tmp_path, node_id=2)
    with pytest.raises(ForeignDirectoryError, match=r"belongs to cluster.id one, this node has cluster.id two"):
        open_directories(tmp_path, cluster_id="two")
    (tmp_path / "file").write_text("")
    with pytest.raises(UnusableDirectoryError, match="cannot use the log directory"):
        open_directories(tmp_path / "file")
    for content, problem in (
        ("version=7", "has version 7"),
        ("version=1\nnode.id=1", "lacks cluster.id"),
        ("version=1\ncluster.id=x\nnode.id=me", "is not a number"),
    ):
        (tmp_path / "meta.properties").write_text(content)
        with pytest.raises(BadMetaPropertiesError, match=problem):
            open_directories(tmp_path)
    (tmp_path / "meta.properties").write_text("# old\nversion=0\ncluster.id=one\nbroker.id=1\n")
    open_directories(tmp_path).close()


@pytest.mark.parametrize(
    ("cause", "goes_on"), [(None, False), (ValueError("bad"), False), (OSError(errno.EIO, "broken"), True)]
)
def test_a_log_that_cannot_be_opened_is_its_disks_fault_or_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: Exception | None, goes_on: bool
) -> None:
    """The node goes on without a disk that fails, and not where a file says nonsense."""
    opens = Opening.open

    def fails(self: Opening, directory: LogDirectory, *args: Any, **more: Any) -> None:
        if directory.path == str(tmp_path / "b"):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "t-0 cannot be read") from cause
        opens(self, directory, *args, **more)

    monkeypatch.setattr(Opening, "open", fails)
    if goes_on:
        directories = open_directories(tmp_path / "a", tmp_path / "b")
        assert [str(one.problem) for one in directories.roots.offline] == [
            f"cannot use the log directory {tmp_path / 'b'} (broken): its disk fails: replace it"
        ]
        directories.close()
    else:
        with pytest.raises(DamagedDirectoryError, match="t-0 cannot be read"):
            open_directories(tmp_path / "a", tmp_path / "b")


def test_the_metadata_log_lies_in_its_own_directory_or_in_the_first(tmp_path: Path) -> None:
    data, more, own = tmp_path / "data", tmp_path / "more", tmp_path / "own"
    directories = open_directories(data, more, metadata=own)
    assert directories.create(CLUSTER_METADATA, 0, CLUSTER_METADATA_ID, CONFIG).parent == str(own)
    for partition in range(4):
        assert directories.create("t", partition, TOPIC_ID, CONFIG).parent != str(own)
    assert [found.path for found in directories.describe()] == [str(data), str(more)]
    directories.close()
    again = open_directories(data, more, metadata=own)
    assert again.roots.was_clean
    assert again.logs[CLUSTER_METADATA, 0].parent == str(own)
    again.close()
    alone = open_directories(tmp_path / "x", tmp_path / "y")
    alone.create("t", 0, TOPIC_ID, CONFIG)
    assert alone.create(CLUSTER_METADATA, 0, CLUSTER_METADATA_ID, CONFIG).parent == str(tmp_path / "x")
    alone.close()


def test_the_metadata_log_may_also_lie_among_the_partitions(tmp_path: Path) -> None:
    directories = open_directories(tmp_path / "x", tmp_path / "y", metadata=tmp_path / "y")
    assert directories.create(CLUSTER_METADATA, 0, CLUSTER_METADATA_ID, CONFIG).parent == str(tmp_path / "y")
    assert directories.create("t", 0, TOPIC_ID, CONFIG).parent == str(tmp_path / "x")
    assert len(directories.describe()) == 2
    directories.close()


def test_a_metadata_log_at_another_place_is_told_and_not_begun_anew(tmp_path: Path) -> None:
    directories = open_directories(tmp_path / "x")
    directories.create(CLUSTER_METADATA, 0, CLUSTER_METADATA_ID, CONFIG)
    directories.close()
    with pytest.raises(
        MisplacedMetadataError, match=r"x holds the metadata log, .*/y: move .* or set metadata.log.dir"
    ):
        open_directories(tmp_path / "x", metadata=tmp_path / "y")


def test_a_directory_without_an_id_gets_one(tmp_path: Path) -> None:
    properties = tmp_path / "meta.properties"
    properties.write_text("version=1\ncluster.id=c\nnode.id=1\n")
    open_directories(tmp_path).close()
    first = properties.read_text()
    assert "directory.id=" in first
    assert "cluster.id=c" in first
    open_directories(tmp_path).close()
    assert properties.read_text() == first


@pytest.mark.parametrize("half_made", [(), ("partition.metadata.tmp",), ("partition.metadata", f"{0:020}.log")])
@pytest.mark.parametrize("in_second", [True, False])
def test_a_log_that_was_made_again_while_a_directory_failed_is_the_one_with_records(
    tmp_path: Path, half_made: tuple[str, ...], in_second: bool
) -> None:
    paths = tmp_path / "one", tmp_path / "two"
    whole, failed = paths[::-1] if in_second else paths
    directories = open_directories(*paths)
    log = directories.create("t", 0, TOPIC_ID, CONFIG)
    append(log, batch(5))
    directories.close()
    (kept,) = (path for path in paths if (path / "t-0").exists())
    if kept != whole:
        (kept / "t-0").rename(whole / "t-0")
        for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
            (kept / name).unlink(missing_ok=True)
    (failed / "t-0").mkdir()
    for name in half_made:
        (failed / "t-0" / name).write_text("version: 0\n" if name.startswith("partition") else "")
    again = open_directories(*paths)
    assert again.logs["t", 0].directory == str(whole / "t-0")
    assert again.logs["t", 0].log_end_offset == 5
    again.close()


@pytest.mark.parametrize("counts", [(5, 5), (5, 0), (0, 5), (0, 0)])
def test_after_a_crash_all_twins_are_recovered_that_have_records(tmp_path: Path, counts: tuple[int, int]) -> None:
    paths = tmp_path / "one", tmp_path / "two"
    directories = open_directories(*paths)
    for topic, count in zip("tu", counts, strict=True):
        log = directories.create(topic, 0, TOPIC_ID, CONFIG)
        if count:
            append(log, batch(count))
    directories.abandon()
    (paths[1] / "u-0").rename(paths[1] / "t-0")
    again = open_directories(*paths)
    log, twins = again.logs["t", 0], again.twins
    assert log.directory == str(paths[counts == (0, 5)] / "t-0")
    assert [twin.directory for twin in twins] == ([str(paths[1] / "t-0")] if all(counts) else [])
    assert [one.is_loaded for one in (log, *twins)] == [any(counts)] * (1 + len(twins))
    assert again.next_removal_ms() == (None if all(counts) else CONFIG.log_delete_delay_ms)
    remove_due(again, NOW)
    assert [(path / "t-0").exists() for path in paths] == [bool(counts[0]) or not any(counts), bool(counts[1])]
    again.close()


@pytest.mark.parametrize(
    ("total", "free", "has_room"),
    [
        (100 << 30, ROOM_BYTES, True),
        (100 << 30, ROOM_BYTES - 1, False),
        (5_000, 50, True),
        (5_000, 49, False),
        (5_050, 50, True),
        (50, 0, True),
    ],
)
def test_a_hundredth_of_a_disk_is_room_or_enough_for_a_while(
    tmp_path: Path, total: int, free: int, has_room: bool
) -> None:
    class Nearly(Disk):
        def space(self, path: str) -> tuple[int, int]:
            return total, free

    directory = LogDirectory(Nearly(), str(tmp_path))
    assert directory.has_room() is has_room
    directory.abandon()


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"])
def test_a_directory_that_is_full_says_so_of_its_checkpoints_and_the_other_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    directories = open_directories(tmp_path / "a", tmp_path / "b")
    for partition in range(2):
        append(directories.create("t", partition, TOPIC_ID, CONFIG), batch(1))
    replace_file = Disk.replace_file

    def replace(disk: Disk, path: str, content: bytes, *, durable: bool) -> None:
        if path.startswith(str(tmp_path / "a")):
            raise OSError(errno.ENOSPC, "no room")
        replace_file(disk, path, content, durable=durable)

    monkeypatch.setattr(Disk, "replace_file", replace)
    checkpoints, logs, (full, other) = directories.checkpoints, directories.logs, directories.roots.online
    marks = {("t", 0): 1, ("t", 1): 1}
    logs["t", 0].cleaned_to = 1
    for write in (checkpoints.write, checkpoints.write_cleaned_offsets):
        with pytest.raises(KafkaError, match="no room"):
            write(logs, full)
        write(logs, other)
    with pytest.raises(KafkaError, match="no room"):
        checkpoints.write_high_watermarks(logs, marks, full)
    checkpoints.write_high_watermarks(logs, marks, other)
    assert (full.health.is_full, other.health.is_full) == (True, False)
    assert "t 1" in (tmp_path / "b" / name).read_text()
    directories.abandon()


def test_where_the_directory_of_the_metadata_log_has_failed_it_is_not_made(tmp_path: Path) -> None:
    directories = open_directories(tmp_path / "a", metadata=tmp_path / "m")
    metadata = directories.roots[str(tmp_path / "m")]
    metadata.health.report(OSError(errno.EIO, "Input/output error"), "reading")
    with pytest.raises(KafkaError) as refused:
        directories.create(CLUSTER_METADATA, 0, CLUSTER_METADATA_ID, CONFIG)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not list((tmp_path / "m").glob("__cluster_metadata*"))
    directories.abandon()
