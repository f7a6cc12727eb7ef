"""One rule for failing disks: what failed is never tried again and then acknowledged (`penstock.log.health`)."""

import errno
import os
import shutil
from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from tests.unit.log.directories.opened import open_directories, write_high_watermarks
from tests.unit.log.failing_disk import FailingDisk
from tests.unit.log.logs import append, batch, open_log

from penstock.log.config import LogConfig
from penstock.log.directories.directory import LogDirectories
from penstock.log.directories.errors import LockedDirectoryError, LogDirectoryError, UnusableDirectoryError
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import CLUSTER_METADATA, CLUSTER_METADATA_ID

CONFIG = LogConfig(file_delete_delay_ms=1000)
FLUSHES_EACH = LogConfig(flush_messages=1)
TOPIC_ID = UUID(int=77)


def refused(log_call: object, *arguments: object, **named: object) -> KafkaError:
    assert callable(log_call)
    with pytest.raises(KafkaError) as caught:
        log_call(*arguments, **named)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    return caught.value


def open_two(tmp_path: Path, disk: FailingDisk | None = None) -> LogDirectories:
    directories = LogDirectories(
        [str(tmp_path / "p1"), str(tmp_path / "p2")], node_id=1, random=Random(1), disk=disk or FailingDisk()
    )
    directories.open_all(lambda topic: CONFIG)
    directories.begin()
    return directories


# one log


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_after_a_sync_that_failed_nothing_counts_as_kept_or_is_tried_again(tmp_path: Path, number: int) -> None:
    disk = FailingDisk()
    log = open_log(tmp_path, FLUSHES_EACH, disk=disk)
    append(log, batch(1, producer=(7, 0, 0)))
    disk.fail("sync", ".log", number)
    refused(log.flush)
    refused(append, log, batch(1, producer=(7, 0, 0)))
    refused(log.append_as_follower, batch(1))
    refused(log.flush)
    assert log.kept_offset == 0
    log.abandon()
    refused(log.read, 0, 100)
    assert log.health.failure is not None
    assert log.recovery_point == 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_write_without_room_is_cut_back_and_the_next_one_may_succeed(tmp_path: Path, number: int) -> None:
    disk = FailingDisk()
    log = open_log(tmp_path, FLUSHES_EACH, disk=disk)
    append(log, batch(1))
    disk.fail("write", ".log", number)
    refused(append, log, batch(1))
    assert log.health.is_full
    assert append(log, batch(1)) == 1
    assert log.health.failure is None
    assert log.health.is_full, "until it has been seen to have room for a while"


def test_a_log_that_cannot_be_cut_back_is_offline(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = open_log(tmp_path, disk=disk)
    append(log, batch(1))
    disk.fail("write", ".log", errno.ENOSPC)
    disk.fail("truncate", ".log", errno.EIO)
    refused(append, log, batch(1))
    refused(append, log, batch(1))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_limit_of_open_files_is_not_the_disk(tmp_path: Path, number: int) -> None:
    disk = FailingDisk()
    log = open_log(tmp_path, disk=disk)
    disk.fail("open", ".log", number)
    refused(append, log, batch(1))
    assert not log.health.is_full
    assert append(log, batch(1)) == 0


def test_an_index_that_cannot_be_written_is_no_exception(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1), disk=disk)
    disk.fail("write", ".index", always=True)
    refused(lambda: [append(log, batch(1)) for _ in range(5000)])
    refused(append, log, batch(1))


def test_who_fails_is_told_once(tmp_path: Path) -> None:
    disk, told = FailingDisk(), []
    log = open_log(tmp_path, disk=disk)
    log.health.on_failure = lambda: told.append(log.health.path)
    disk.fail("write", ".log", always=True)
    refused(append, log, batch(1))
    refused(append, log, batch(1))
    refused(log.flush)
    assert told == [str(tmp_path)]


# directories while the node runs


def test_a_directory_that_fails_takes_its_logs_along_and_no_other(tmp_path: Path) -> None:
    disk = FailingDisk()
    directories = open_two(tmp_path, disk)
    logs = [directories.create("t", index, TOPIC_ID, CONFIG) for index in range(4)]
    failing = [log for log in logs if log.parent.endswith("p2")]
    assert len(failing) == 2
    told: list[str] = []
    directories.roots.on_failure(told.append)
    disk.fail("write", "p2/")
    refused(append, failing[0], batch(1))
    assert told == [str(tmp_path / "p2")]
    refused(append, failing[1], batch(1))
    for log in logs:
        if log not in failing:
            assert append(log, batch(1)) == 0
    assert directories.roots.why_unusable() is None
    assert len(directories.roots.offline_ids) == 1
    described = {one.path[-2:]: one.failure for one in directories.describe()}
    assert described["p1"] is None
    assert described["p2"] is not None


def test_new_partitions_go_to_directories_that_are_online(tmp_path: Path) -> None:
    disk = FailingDisk()
    directories = open_two(tmp_path, disk)
    shutil.rmtree(tmp_path / "p2")
    logs = [directories.create("t", index, TOPIC_ID, CONFIG) for index in range(4)]
    assert {log.parent for log in logs} == {str(tmp_path / "p1")}
    assert [directory.path for directory in directories.roots.offline] == [str(tmp_path / "p2")]
    assert [append(log, batch(1)) for log in logs] == [0] * 4


def test_a_replica_that_may_lie_in_an_offline_directory_is_not_made_anew(tmp_path: Path) -> None:
    disk = FailingDisk()
    directories = open_two(tmp_path, disk)
    first, second = directories.roots.online_ids
    disk.fail("make", "p2/t-0")
    directories.create("t", 0, TOPIC_ID, CONFIG, assigned=second)
    refused(directories.create, "t", 1, TOPIC_ID, CONFIG, assigned=second, is_new=False)
    refused(directories.create, "t", 2, TOPIC_ID, CONFIG, is_new=False)
    assert directories.create("t", 3, TOPIC_ID, CONFIG, assigned=first, is_new=False).parent == str(tmp_path / "p1")


@pytest.mark.parametrize("is_new", [True, False])
def test_a_log_in_a_directory_that_failed_is_made_elsewhere_if_it_is_new(tmp_path: Path, *, is_new: bool) -> None:
    disk = FailingDisk()
    directories = open_two(tmp_path, disk)
    first, second = directories.roots.online_ids
    log = directories.create("t", 0, TOPIC_ID, CONFIG, assigned=second)
    disk.fail("write", "p2/")
    refused(append, log, batch(1))
    if not is_new:
        refused(directories.create, "t", 0, TOPIC_ID, CONFIG, is_new=False, assigned=first)
        assert directories.logs["t", 0] is log
        return
    other = directories.create("t", 0, TOPIC_ID, CONFIG)
    assert (other.parent, append(other, batch(1))) == (str(tmp_path / "p1"), 0)
    assert directories.create("t", 0, TOPIC_ID, CONFIG) is other


def test_a_log_in_a_directory_that_failed_is_not_put_away(tmp_path: Path) -> None:
    directories = open_two(tmp_path)
    log = directories.create("t", 0, TOPIC_ID, CONFIG)
    append(log, batch(1))
    log.health.report(OSError(errno.EIO, "Input/output error"), "reading")
    refused(directories.delete, log, 0)
    refused(directories.set_aside, log)
    assert (directories.logs, log.is_deleted, log.is_loaded) == ({("t", 0): log}, False, True)
    assert (tmp_path / "p1" / "t-0").is_dir()
    directories.abandon()


def test_where_no_directory_for_data_is_online_no_log_is_made(tmp_path: Path) -> None:
    directories = open_directories(tmp_path / "p1", metadata=tmp_path / "m")
    directories.roots.for_data[0].health.report(OSError(errno.EIO, "Input/output error"), "reading")
    assert "p1" in str(refused(directories.create, "t", 0, TOPIC_ID, CONFIG))
    assert directories.create(CLUSTER_METADATA, 0, CLUSTER_METADATA_ID, CONFIG).parent == str(tmp_path / "m")
    directories.abandon()


def test_without_its_metadata_log_a_node_cannot_go_on(tmp_path: Path) -> None:
    disk = FailingDisk()
    directories = open_two(tmp_path, disk)
    disk.fail("write", "p1/")
    refused(append, directories.create("t", 0, TOPIC_ID, CONFIG), batch(1))
    assert "without its metadata log" in str(directories.roots.why_unusable())


def test_a_close_marks_as_clean_what_did_not_fail(tmp_path: Path) -> None:
    disk = FailingDisk()
    directories = open_two(tmp_path, disk)
    for index in range(2):
        append(directories.create("t", index, TOPIC_ID, CONFIG), batch(1))
    disk.fail("sync", "p2/")
    refused(directories.close)
    assert (tmp_path / "p1" / ".kafka_cleanshutdown").exists()
    assert not (tmp_path / "p2" / ".kafka_cleanshutdown").exists()
    assert directories.logs == {}
    again = open_two(tmp_path)
    assert [directory.is_clean for directory in again.roots.online] == [True, False], "their locks are free"
    again.close()


# at the start


def two_with_logs(tmp_path: Path, *, clean: bool = True) -> None:
    directories = open_two(tmp_path)
    for index in range(2):
        append(directories.create("t", index, TOPIC_ID, CONFIG), batch(3))
    directories.close() if clean else directories.abandon()


@pytest.mark.parametrize("call", ["look", "open", "read file"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_bad_directory_at_the_start_is_like_one_that_failed(tmp_path: Path, call: str, clean: bool) -> None:
    two_with_logs(tmp_path, clean=clean)
    disk = FailingDisk()
    disk.fail(call, "p2", always=True)
    directories = open_two(tmp_path, disk)
    assert [directory.path for directory in directories.roots.offline] == [str(tmp_path / "p2")]
    assert directories.logs["t", 0].read(0, 1000).length > 0
    refused(directories.create, "t", 1, TOPIC_ID, CONFIG, assigned=UUID(int=5), is_new=False)
    directories.close()
    assert not (tmp_path / "p1" / "t-1").exists()
    assert (tmp_path / "p1" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("where", ["p1", "p2"])
@pytest.mark.parametrize(
    ("clean", "call", "path", "number"),
    [
        (True, "read file", "meta.properties", errno.EIO),
        (True, "read file", ".kafka_cleanshutdown", errno.EIO),
        (True, "directories", "", errno.EIO),
        (True, "read file", "recovery-point-offset-checkpoint", errno.EIO),
        (True, "read file", "log-start-offset-checkpoint", errno.EIO),
        (True, "read file", "cleaner-offset-checkpoint", errno.EIO),
        (False, "names", "t-", errno.EIO),
        (False, "open", "t-", errno.EIO),
        (True, "remove", ".kafka_cleanshutdown", errno.EROFS),
        (True, "sync directory", "", errno.EIO),
    ],
)
def test_a_directory_is_offline_whatever_of_it_cannot_be_read_or_written_and_the_node_may_need_it(
    tmp_path: Path, where: str, clean: bool, call: str, path: str, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The first one has the metadata log."""
    two_with_logs(tmp_path, clean=clean)
    disk = FailingDisk()
    disk.fail(call, f"{where}/{path}" if path else where, number)
    if where == "p1":
        with pytest.raises(UnusableDirectoryError, match=os.strerror(number)):
            open_two(tmp_path, disk)
        return
    directories = open_two(tmp_path, disk)
    (offline,) = directories.roots.offline
    assert (offline.path, type(offline.problem)) == (str(tmp_path / where), UnusableDirectoryError)
    assert caplog.text.count("This node starts without it") == 1
    assert append(directories.logs["t", 0], batch(1)) == 3
    directories.abandon()


def test_a_bad_meta_properties_in_one_of_two_is_a_bad_directory(tmp_path: Path) -> None:
    two_with_logs(tmp_path)
    (tmp_path / "p2" / "meta.properties").write_text("nonsense")
    assert len(open_two(tmp_path).roots.offline) == 1


def test_one_that_is_missing_and_cannot_be_made_is_a_bad_directory(tmp_path: Path) -> None:
    disk = FailingDisk()
    disk.fail("make", "p2", errno.ENOSPC)
    assert [directory.path for directory in open_two(tmp_path, disk).roots.offline] == [str(tmp_path / "p2")]


def test_one_that_another_start_has_made_meanwhile_keeps_its_identity(tmp_path: Path) -> None:
    slow = LogDirectories([str(tmp_path / "p1")], node_id=1, random=Random(2))
    slow.open_all(lambda topic: CONFIG)
    quick = open_two(tmp_path)
    quick.close()
    with pytest.raises(LockedDirectoryError):
        slow.begin()
    slow.give_back()
    assert open_two(tmp_path).cluster_id == quick.cluster_id


def test_the_only_one_that_is_missing_and_cannot_be_made_is_needed(tmp_path: Path) -> None:
    disk = FailingDisk()
    disk.fail("make", "p1", errno.ENOSPC)
    with pytest.raises(UnusableDirectoryError, match="free some space"):
        open_two(tmp_path, disk)


def test_the_last_directory_and_that_of_the_metadata_log_are_needed(tmp_path: Path) -> None:
    two_with_logs(tmp_path)
    disk = FailingDisk()
    disk.fail("look", "p1")
    with pytest.raises(UnusableDirectoryError, match="its disk fails"):
        open_two(tmp_path, disk)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (errno.ENOSPC, r"free some space on its disk; nothing in it is damaged"),
        (errno.EACCES, r"give the node's user write access"),
        (errno.EROFS, r"mounted read-only"),
        (errno.EIO, r"its disk fails: replace it"),
        (errno.EMFILE, r"raise the limit of open files"),
    ],
)
def test_each_cause_at_the_start_has_its_own_sentence(tmp_path: Path, number: int, text: str) -> None:
    directories = LogDirectories([str(tmp_path)], node_id=1, random=Random(1))
    directories.open_all(lambda topic: CONFIG)
    directories.begin()
    append(directories.create("t", 0, TOPIC_ID, CONFIG), batch(3))
    directories.abandon()
    disk = FailingDisk()
    disk.fail(
        "replace" if number != errno.EMFILE else "open", "leader-epoch" if number != errno.EMFILE else ".log", number
    )
    with open(tmp_path / "t-0" / "leader-epoch-checkpoint", "w") as file:
        file.write("0\n1\n4 2\n")
    again = LogDirectories([str(tmp_path)], node_id=1, random=Random(1), disk=disk)
    with pytest.raises(LogDirectoryError, match=text):
        again.open_all(lambda topic: CONFIG)
    again.abandon()


def test_a_directory_that_fails_when_its_high_watermarks_are_read_is_offline(tmp_path: Path) -> None:
    disk = FailingDisk()
    directories = open_two(tmp_path, disk)
    for index in range(2):
        directories.create("t", index, TOPIC_ID, CONFIG)
    write_high_watermarks(directories, {("t", 0): 3, ("t", 1): 4})
    disk.fail("read file", "p2/replication-offset-checkpoint")
    assert directories.checkpoints.high_watermarks(directories.logs).keys() == {
        key for key, log in directories.logs.items() if log.parent.endswith("p1")
    }
    assert [directory.path for directory in directories.roots.offline] == [str(tmp_path / "p2")]
    directories.abandon()
