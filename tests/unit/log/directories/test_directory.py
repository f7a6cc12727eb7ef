import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.log.directories.opened import (
    CONFIG,
    TOPIC_ID,
    open_directories,
    write_checkpoints,
    write_high_watermarks,
)
from tests.unit.log.logs import NOW, append, batch
from tests.unit.log.removed import remove_due

from penstock.log.checkpoint import TopicPartition, encode_partition_metadata
from penstock.log.directories.errors import (
    METADATA_LOG,
    NotMetadataLogError,
    RenamedMetadataError,
)
from penstock.log.directories.log_directory import LogDirectory
from penstock.log.names import PARTITION_METADATA
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import CLUSTER_METADATA, CLUSTER_METADATA_ID, STORAGE_GROUPS


def test_a_clean_restart_knows_the_end_without_reading_the_logs(tmp_path: Path) -> None:
    directories = open_directories(tmp_path)
    log = directories.create("t", 3, TOPIC_ID, CONFIG)
    append(log, batch(5))
    directories.close()
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version": 0, "brokerEpoch": -1}'
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 3 5\n"

    again = open_directories(tmp_path)
    log = again.logs["t", 3]
    assert again.roots.was_clean
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert log.log_end_offset == 5
    assert log.size_bytes == len(batch(5))
    assert not log.is_loaded
    assert log.topic_id == TOPIC_ID
    assert append(log, batch(1)) == 5
    again.close()


def test_a_crash_leads_to_a_recovery(tmp_path: Path) -> None:
    directories = open_directories(tmp_path)
    append(directories.create("t", 0, TOPIC_ID, CONFIG), batch(5))
    cluster_id = directories.cluster_id
    directories.abandon()
    again = open_directories(tmp_path)
    assert not again.roots.was_clean
    assert again.logs["t", 0].is_loaded
    assert again.logs["t", 0].log_end_offset == 5
    assert again.cluster_id == cluster_id
    again.close()


def test_a_crash_leads_to_no_recovery_of_empty_logs(tmp_path: Path) -> None:
    directories = open_directories(tmp_path)
    for partition in range(3):
        directories.create("t", partition, TOPIC_ID, CONFIG).load()
    directories.abandon()
    (tmp_path / "t-1" / "00000000000000000000.timeindex").write_bytes(b"x")
    again = open_directories(tmp_path)
    write_checkpoints(again)
    assert [again.logs["t", partition].is_loaded for partition in range(3)] == [False, True, False]
    log = again.logs["t", 0]
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (0, 0, 0)
    assert not log.is_loaded
    assert append(log, batch(2)) == 0
    again.abandon()
    third = open_directories(tmp_path)
    assert [third.logs["t", partition].log_end_offset for partition in range(3)] == [2, 0, 0]
    third.close()


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
def test_a_log_is_recovered_that_is_empty_and_was_not_by_the_checkpoints(tmp_path: Path, name: str) -> None:
    directories = open_directories(tmp_path)
    directories.create("t", 0, TOPIC_ID, CONFIG).load()
    directories.abandon()
    (tmp_path / name).write_text("0\n1\nt 0 4\n")
    again = open_directories(tmp_path)
    assert again.logs["t", 0].is_loaded
    assert again.logs["t", 0].log_end_offset == (4 if name.startswith("log-start") else 0)
    again.close()


def test_the_name_of_a_segment_that_was_closed_empty_is_synced_with_its_first_records(tmp_path: Path) -> None:
    directories = open_directories(tmp_path)
    directories.create("t", 0, TOPIC_ID, CONFIG).load()
    directories.close()
    again = open_directories(tmp_path)
    assert again.logs["t", 0].segments.has_new_names
    append(again.logs["t", 0], batch(1))
    again.logs["t", 0].flush()
    assert not again.logs["t", 0].segments.has_new_names
    again.close()


def test_delete_records_survives_restart_through_the_checkpoint(tmp_path: Path) -> None:
    directories = open_directories(tmp_path)
    log = directories.create("t", 0, TOPIC_ID, CONFIG)
    append(log, batch(5))
    log.advance_log_start(3)
    directories.close()
    again = open_directories(tmp_path)
    assert again.logs["t", 0].log_start_offset == 3
    again.close()
    third = open_directories(tmp_path)
    assert third.logs["t", 0].start_to_checkpoint == 3
    third.close()


def test_a_deleted_partition_goes_at_once_and_its_files_later(tmp_path: Path) -> None:
    directories = open_directories(tmp_path)
    log = directories.create("t", 0, TOPIC_ID, CONFIG)
    append(log, batch(5))
    kept = log.read(0, 1000)
    directories.delete(log, NOW)
    (renamed,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert renamed.name.startswith("t-0.")
    assert renamed.name.endswith("-delete")
    with pytest.raises(KafkaError) as refusal:
        append(log, batch(1))
    assert refusal.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(KafkaError):
        log.read(0, 1000)
    assert directories.next_removal_ms() == NOW + 1000
    assert remove_due(directories, NOW + 999) == 0
    assert remove_due(directories, NOW + 1000) == 1
    assert not renamed.exists()
    assert len(kept.read()) == kept.length
    directories.create("t", 0, TOPIC_ID, CONFIG)
    directories.close()


def test_a_log_of_an_earlier_topic_of_the_same_name_is_not_taken_over(tmp_path: Path) -> None:
    directories = open_directories(tmp_path)
    append(directories.create("t", 0, TOPIC_ID, CONFIG), batch(5))
    assert directories.create("t", 0, TOPIC_ID, CONFIG).log_end_offset == 5
    directories.close()
    again = open_directories(tmp_path)
    assert again.create("t", 0, TOPIC_ID, CONFIG).log_end_offset == 5
    log = again.create("t", 0, UUID(int=78), CONFIG)
    assert (log.log_end_offset, log.topic_id) == (0, UUID(int=78))
    assert again.next_removal_ms() is None
    (aside,) = tmp_path.glob("t-0.*-stray")
    assert (aside / "00000000000000000000.log").stat().st_size > 0
    (tmp_path / "t-0" / "partition.metadata").unlink()
    other = again.create("t", 0, TOPIC_ID, CONFIG)
    assert other is not log, "whoever has claimed it has it, whatever its file says"
    (tmp_path / "t-0" / "partition.metadata").unlink()
    again.close()
    last = open_directories(tmp_path)
    assert last.create("t", 0, TOPIC_ID, CONFIG).topic_id == TOPIC_ID
    last.close()


def test_what_no_topic_has_claimed_by_its_id_is_not_deleted(tmp_path: Path) -> None:
    directories = open_directories(tmp_path)
    append(directories.create("t", 0, TOPIC_ID, CONFIG), batch(5))
    directories.create("t", 1, TOPIC_ID, CONFIG)
    directories.close()
    again = open_directories(tmp_path)
    log = again.logs["t", 0]
    with pytest.raises(KafkaError, match="t-0 is not deleted"):
        again.delete(log, NOW)
    assert not again.claim(log, UUID(int=78))
    with pytest.raises(KafkaError, match="t-0 is not deleted"):
        again.delete(log, NOW)
    assert again.logs["t", 0] is log
    assert again.claim(log, TOPIC_ID)
    again.delete(log, NOW)
    assert again.logs.keys() == {("t", 1)}
    again.close()


def test_no_topic_gets_the_metadata_log_whatever_it_is_called(tmp_path: Path) -> None:
    directories = open_directories(tmp_path)
    log = directories.create(CLUSTER_METADATA, 0, CLUSTER_METADATA_ID, CONFIG)
    append(log, batch(5))
    for partition in range(2):
        with pytest.raises(KafkaError) as raised:
            directories.create(CLUSTER_METADATA, partition, TOPIC_ID, CONFIG)
        assert raised.value.code == ErrorCode.INCONSISTENT_TOPIC_ID
    assert directories.logs == {(CLUSTER_METADATA, 0): log}
    assert [path.name for path in tmp_path.glob(f"{CLUSTER_METADATA}*")] == [METADATA_LOG]
    for put_away in (directories.set_aside, lambda log: directories.delete(log, NOW)):
        with pytest.raises(KafkaError, match="stays: it is the metadata log"):
            put_away(log)
    append(log, batch(5))
    assert (tmp_path / METADATA_LOG).is_dir()
    directories.abandon()


def test_a_log_that_is_set_aside_is_a_log_no_longer_and_its_place_is_free(tmp_path: Path) -> None:
    directories = open_directories(tmp_path)
    log = directories.create("orders", 0, TOPIC_ID, CONFIG)
    append(log, batch(5))
    aside = directories.set_aside(log)
    assert Path(aside).is_dir()
    assert directories.logs == {}
    assert directories.create("orders", 0, TOPIC_ID, CONFIG).log_end_offset == 0
    assert directories.next_removal_ms() is None, "it is never removed here"
    directories.close()


def test_the_log_of_another_clusters_storage_group_is_left_as_it_is(tmp_path: Path) -> None:
    directories = open_directories(tmp_path)
    append(directories.create(STORAGE_GROUPS, 0, TOPIC_ID, CONFIG), batch(5))
    with pytest.raises(KafkaError) as raised:
        directories.create(STORAGE_GROUPS, 0, UUID(int=78), CONFIG)
    assert raised.value.code == ErrorCode.INCONSISTENT_TOPIC_ID
    assert directories.create(STORAGE_GROUPS, 0, TOPIC_ID, CONFIG).log_end_offset == 5
    directories.close()


def stop_with_a_metadata_log(path: Path) -> Path:
    """The directory of a metadata log with records."""
    directories = open_directories(path)
    append(directories.create(CLUSTER_METADATA, 0, CLUSTER_METADATA_ID, CONFIG), batch(5))
    directories.close()
    return path / METADATA_LOG


@pytest.mark.parametrize("kind", ["delete", "stray", "future"])
def test_a_metadata_log_that_was_renamed_is_not_removed_and_nothing_begins_without_it(
    tmp_path: Path, kind: str
) -> None:
    log = stop_with_a_metadata_log(tmp_path)
    renamed = log.with_name(f"{log.name}.{TOPIC_ID.hex}-{kind}")
    log.rename(renamed)
    for _ in range(2):
        with pytest.raises(RenamedMetadataError, match=f"rename {renamed.name} to {log.name}, or move it away"):
            open_directories(tmp_path)
    renamed.rename(log)
    directories = open_directories(tmp_path)
    assert directories.logs[CLUSTER_METADATA, 0].log_end_offset == 5
    directories.close()


def test_a_renamed_metadata_log_beside_another_one_stays_there(tmp_path: Path) -> None:
    log = stop_with_a_metadata_log(tmp_path)
    renamed = log.with_name(f"{log.name}.{TOPIC_ID.hex}-delete")
    log.rename(renamed)
    (tmp_path / METADATA_LOG).mkdir()
    directories = open_directories(tmp_path)
    assert directories.next_removal_ms() is None
    directories.close()
    assert renamed.is_dir()


def test_a_topics_log_in_the_place_of_the_metadata_log_is_told(tmp_path: Path) -> None:
    log = stop_with_a_metadata_log(tmp_path)
    (log / PARTITION_METADATA).write_bytes(encode_partition_metadata(TOPIC_ID))
    with pytest.raises(NotMetadataLogError, match=f"{log} is not the metadata log.*restore {log.name} from a backup"):
        open_directories(tmp_path)
    renamed = log.with_name(f"{log.name}.{TOPIC_ID.hex}-delete")
    renamed.mkdir()
    with pytest.raises(NotMetadataLogError, match=f"Move it away, and rename {renamed.name} to {log.name}"):
        open_directories(tmp_path)
    (log / PARTITION_METADATA).write_bytes(encode_partition_metadata(CLUSTER_METADATA_ID))
    open_directories(tmp_path).close()


def test_the_metadata_log_has_one_partition_and_others_are_passed_over(tmp_path: Path) -> None:
    for name in ("1", "00", f"1.{TOPIC_ID.hex}-future"):
        (tmp_path / f"{CLUSTER_METADATA}-{name}").mkdir()
    directories = open_directories(tmp_path)
    assert not directories.logs
    assert not directories.futures
    directories.close()


@pytest.mark.parametrize("topic", [f"{CLUSTER_METADATA}-0.{TOPIC_ID.hex}", f"{CLUSTER_METADATA}-0", "t-delete"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_topics_name_that_looks_like_a_renamed_log_is_a_name(tmp_path: Path, topic: str, is_clean: bool) -> None:
    stop_with_a_metadata_log(tmp_path)
    directories = open_directories(tmp_path)
    append(directories.create(topic, 0, TOPIC_ID, CONFIG), batch(5))
    directories.close() if is_clean else directories.abandon()
    again = open_directories(tmp_path)
    log = again.create(topic, 0, TOPIC_ID, CONFIG)
    assert log.log_end_offset == 5
    again.delete(log, NOW)
    again.close()
    last = open_directories(tmp_path)
    assert remove_due(last, NOW) == 1
    assert last.logs.keys() == {(CLUSTER_METADATA, 0)}
    last.close()


def test_a_directory_that_is_not_known_is_not_taken_for_another_topics_log(tmp_path: Path) -> None:
    directories = open_directories(tmp_path)
    append(directories.create("t", 0, TOPIC_ID, CONFIG), batch(5))
    log = directories.logs.pop(("t", 0))
    with pytest.raises(KafkaError) as raised:
        directories.create("t", 0, UUID(int=78), CONFIG)
    assert raised.value.code == ErrorCode.INCONSISTENT_TOPIC_ID
    log.close()
    assert directories.create("t", 0, TOPIC_ID, CONFIG).log_end_offset == 5, "its own is read"
    directories.close()


def test_a_topic_that_comes_before_the_one_of_its_name_has_gone(tmp_path: Path) -> None:
    directories = open_directories(tmp_path)
    before = directories.create("t", 0, TOPIC_ID, CONFIG)
    append(before, batch(5))
    after = directories.create("t", 0, UUID(int=78), CONFIG)
    append(after, batch(3))
    directories.delete(before, NOW)
    assert directories.logs == {("t", 0): after}
    assert remove_due(directories, NOW + CONFIG.log_delete_delay_ms) == 1
    assert [path.name for path in tmp_path.glob("t-0*")] == ["t-0"]
    assert after.log_end_offset == 3
    directories.close()


def test_twins_of_different_topics_are_left_to_the_metadata_though_one_is_empty(tmp_path: Path) -> None:
    """The disk of the first was away while its topic was deleted and made again."""
    paths = tmp_path / "p1", tmp_path / "p2"
    for path, topic_id, count in zip(paths, (TOPIC_ID, UUID(int=78)), (5, 0), strict=True):
        directories = open_directories(path)
        log = directories.create("t", 0, topic_id, CONFIG)
        if count:
            append(log, batch(count))
        directories.close()
    (paths[1] / "meta.properties").write_text(
        (paths[0] / "meta.properties")
        .read_text()
        .replace("directory.id=", "directory.id=AAAAAAAAAAAAAAAAAAAAZQ\nother=")
    )
    directories = open_directories(*paths)
    assert len(directories.twins) == 1
    assert remove_due(directories, NOW) == 0
    assert all((path / "t-0").is_dir() for path in paths)
    directories.close()


@pytest.mark.parametrize("is_known", [True, False], ids=["at once", "after another start"])
def test_checkpoints_of_an_earlier_log_say_nothing_of_one_of_its_name(tmp_path: Path, *, is_known: bool) -> None:
    """Else a kill -9 would take its records for older than its start, and a power cut leave holes in it."""
    directories = open_directories(tmp_path)
    log, other = directories.create("t", 0, TOPIC_ID, CONFIG), directories.create("u", 0, TOPIC_ID, CONFIG)
    for one in (log, other):
        append(one, batch(5))
    log.flush()
    log.advance_log_start(3)
    write_checkpoints(directories)
    write_high_watermarks(directories, {("t", 0): 5, ("u", 0): 5})
    directories.delete(log, NOW)
    if not is_known:
        directories.abandon()
        directories = open_directories(tmp_path)
        directories.checkpoints.high_watermarks(directories.logs)
    log = directories.create("t", 0, UUID(int=78), CONFIG)
    append(log, batch(2))
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"):
        assert "t 0" not in (tmp_path / name).read_text()
    assert "u 0 5" in (tmp_path / "replication-offset-checkpoint").read_text()
    directories.abandon()
    again = open_directories(tmp_path).logs["t", 0]
    assert (again.log_start_offset, again.log_end_offset) == (0, 2)


class CountedLock:
    """Whoever comes second waits."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._owner: object = None
        self.others_wait = False

    def __enter__(self) -> None:
        self.others_wait |= self._owner not in (None, threading.current_thread())
        self._lock.acquire()
        self._owner = threading.current_thread()

    def __exit__(self, *_: object) -> None:
        self._owner = None
        self._lock.release()


@pytest.mark.parametrize("name", ["write_recovery_points", "write_high_watermarks"])
def test_nor_do_those_that_a_thread_is_just_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    directories = open_directories(tmp_path)
    log = directories.create("t", 0, TOPIC_ID, CONFIG)
    append(log, batch(5))
    log.flush()
    gathered, may_go_on = threading.Event(), threading.Event()
    lock = directories.roots[str(tmp_path)].checkpointing = CountedLock()  # type: ignore[assignment]  # as far as it is used
    write = getattr(LogDirectory, name)

    def slowly(directory: LogDirectory, offsets: dict[TopicPartition, int]) -> None:
        gathered.set()
        assert may_go_on.wait(30)
        write(directory, offsets)

    monkeypatch.setattr(LogDirectory, name, slowly)
    marks = {("t", 0): 5}
    with ThreadPoolExecutor() as threads:
        if name == "write_recovery_points":
            writing = threads.submit(write_checkpoints, directories)
        else:
            writing = threads.submit(write_high_watermarks, directories, marks)
        assert gathered.wait(30)
        directories.delete(log, NOW)
        coming = threads.submit(directories.create, "t", 0, UUID(int=78), CONFIG)
        while not (lock.others_wait or coming.done()):
            pass
        may_go_on.set()
        writing.result(30)
        coming.result(30)
    assert all("t 0" not in path.read_text() for path in tmp_path.glob("*-checkpoint"))
    directories.abandon()


def test_a_log_that_comes_back_to_a_directory_finds_no_checkpoints_there(tmp_path: Path) -> None:
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    directories = open_directories(*map(Path, paths))
    log = directories.create("t", 0, TOPIC_ID, CONFIG)
    append(log, batch(5))
    log.flush()
    write_checkpoints(directories)
    home = log.parent
    for path in sorted(paths, key=home.__eq__):
        future = directories.create_future(log, path, log.log_start_offset, TOPIC_ID)
        append(future, batch(5))
        future.close(durable=True)
        directories.swapped(log, directories.swap(log), NOW)
    assert log.parent == home
    checkpoint = Path(home) / "recovery-point-offset-checkpoint"
    assert "t 0" not in checkpoint.read_text()
    directories.abandon()
