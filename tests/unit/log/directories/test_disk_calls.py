"""What each operation on log directories asks of the disk, in order: what is replaced, renamed, removed, and synced."""

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.unit.log.directories.opened import (
    CONFIG,
    TOPIC_ID,
    write_checkpoints,
    write_cleaned_offsets,
    write_high_watermarks,
)
from tests.unit.log.logs import NOW, append, batch
from tests.unit.log.recorded_disk import RecordedDisk
from tests.unit.log.removed import remove_due

from penstock.log.directories import directory as directory_module
from penstock.log.directories.directory import LogDirectories
from penstock.log.log_holder import LentError
from penstock.log.partition_log import PartitionLog
from penstock.protocol.errors import ErrorCode, KafkaError

KEY = ("t", 0)
SEGMENT = re.compile(r"^(?!sync)\S.*/\d{20}\.")
FIRST_CHECKPOINTS = [
    f"replace durably {it}/{name}-offset-checkpoint" for it in ("a", "b") for name in ("recovery-point", "log-start")
]


class World:
    """Two directories; t-0 lies in the first."""

    def __init__(self, root: Path) -> None:
        self.disk = RecordedDisk(root)
        self.directories = self.opened()

    def opened(self) -> LogDirectories:
        paths = [f"{self.disk.root}{name}" for name in ("a", "b")]
        self.directories = LogDirectories(paths, node_id=1, random=Random(1), disk=self.disk)
        self.directories.open_all(lambda topic: CONFIG)
        return self.directories

    @property
    def log(self) -> PartitionLog:
        return self.directories.logs[KEY]

    def with_log(self) -> "World":
        self.directories.begin()
        append(self.directories.create(*KEY, TOPIC_ID, CONFIG), batch(5))
        return self

    def future(self) -> PartitionLog:
        return self.directories.create_future(self.log, f"{self.disk.root}b", self.log.log_start_offset, TOPIC_ID)

    def did(self, work: Callable[[], object]) -> list[str]:
        """The writes of segments and their indexes are left out."""
        self.disk.take()
        work()
        done = [it for it in self.disk.take() if not SEGMENT.match(it)]
        return [re.sub(r"\.[0-9a-f]{32}-", ".#-", re.sub(r"\b0{10,}", "", it)) for it in done]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path).with_log()


def test_directories_and_logs_are_made_with_what_names_them(tmp_path: Path) -> None:
    world = World(tmp_path)
    made = [[f"make {it}", f"replace durably {it}/meta.properties"] for it in ("a", "b")]
    assert world.did(world.directories.begin) == [*made[0], *made[1]]
    assert world.did(lambda: world.directories.create(*KEY, TOPIC_ID, CONFIG)) == [
        "make a/t-0",
        "replace a/t-0/partition.metadata",
    ]
    assert world.did(lambda: world.directories.create(*KEY, TOPIC_ID, CONFIG)) == []


def test_checkpoints_are_written_of_all_directories_when_they_change(world: World) -> None:
    directories = world.directories
    assert world.did(lambda: write_checkpoints(directories)) == FIRST_CHECKPOINTS
    assert world.did(lambda: write_checkpoints(directories)) == []
    world.log.cleaned_to = 3
    assert world.did(lambda: write_checkpoints(directories)) == ["replace durably a/cleaner-offset-checkpoint"]
    world.log.cleaned_to = 4
    assert world.did(lambda: write_cleaned_offsets(directories)) == ["replace durably a/cleaner-offset-checkpoint"]
    world.log.advance_log_start(2)
    assert world.did(lambda: write_checkpoints(directories)) == ["replace durably a/log-start-offset-checkpoint"]
    world.log.flush()
    assert world.did(lambda: write_checkpoints(directories)) == ["replace durably a/recovery-point-offset-checkpoint"]
    marks = {KEY: 1, ("gone", 0): 2}
    assert world.did(lambda: write_high_watermarks(directories, marks)) == [
        f"replace durably {it}/replication-offset-checkpoint" for it in ("a", "b")
    ]
    assert directories.checkpoints.high_watermarks(directories.logs) == {KEY: 1}


def test_a_deletion_renames_at_once_and_removes_after_the_delay(world: World) -> None:
    log, directories = world.log, world.directories
    assert world.did(lambda: directories.delete(log, NOW)) == ["rename a/t-0 as a/t-0.#-delete"]
    assert log.is_deleted
    assert directories.next_removal_ms() == NOW + CONFIG.log_delete_delay_ms
    assert world.did(lambda: remove_due(directories, NOW + CONFIG.log_delete_delay_ms - 1)) == []
    assert world.did(lambda: remove_due(directories, NOW + CONFIG.log_delete_delay_ms)) == [
        "remove all of a/t-0.#-delete"
    ]


def test_a_log_that_a_thread_has_is_neither_given_to_its_topic_nor_put_away(world: World) -> None:
    log, directories = world.log, world.directories
    log.lend()
    for ask in (
        lambda: directories.create(*KEY, TOPIC_ID, CONFIG),
        lambda: directories.delete(log, NOW),
        lambda: directories.set_aside(log),
    ):
        with pytest.raises(LentError):
            ask()
    assert log.take_back(is_whole=True) == []
    assert directories.create(*KEY, TOPIC_ID, CONFIG) is log


def test_what_no_topic_claimed_is_not_put_away(world: World) -> None:
    world.log.owner = None
    with pytest.raises(KafkaError, match="no topic has claimed it") as refusal:
        world.directories.delete(world.log, NOW)
    assert refusal.value.code == ErrorCode.INCONSISTENT_TOPIC_ID
    assert world.did(lambda: world.directories.set_aside(world.log)) == ["rename a/t-0 as a/t-0.#-stray"]
    assert KEY not in world.directories.logs


def test_a_copy_begins_where_its_original_does_and_durably(world: World) -> None:
    world.log.advance_log_start(2)
    assert world.did(world.future) == [
        "make b/t-0.#-future",
        "replace b/t-0.#-future/partition.metadata",
        "sync b/t-0.#-future/partition.metadata",
        "sync directory b/t-0.#-future",
        "sync directory b",
    ]
    future = world.directories.futures[KEY]
    assert (future.log_start_offset, future.log_end_offset, future.topic_id) == (2, 2, TOPIC_ID)
    assert future.is_trusted, "there is nothing to recover"


def test_a_swap_names_the_original_away_before_the_copy_and_each_durably(world: World) -> None:
    log, future = world.log, world.future()
    log.flush()
    write_checkpoints(world.directories)
    append(future, batch(5))
    future.close(durable=True)
    assert world.did(lambda: world.directories.swapped(log, world.directories.swap(log), NOW)) == [
        "rename a/t-0 as a/t-0.#-delete",
        "sync directory a",
        "rename b/t-0.#-future as b/t-0",
        "sync directory b",
    ]
    assert not world.directories.futures
    assert world.directories.next_removal_ms() == NOW + CONFIG.log_delete_delay_ms
    assert (log.parent, log.log_end_offset, log.recovery_point) == (f"{world.disk.root}b", 5, 5)
    assert world.did(lambda: write_checkpoints(world.directories)) == [
        "replace durably a/recovery-point-offset-checkpoint",
        "replace durably b/recovery-point-offset-checkpoint",
    ]


@pytest.mark.parametrize("how", ["delete", "swap"])
def test_files_are_closed_before_their_directory_is_renamed(
    world: World, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A thread that flushes the log must not take its files for lost."""
    log, was_loaded = world.log, list[bool]()
    if how == "swap":
        append(future := world.future(), batch(5))
        future.close(durable=True)
    rename = RecordedDisk.rename

    def noting(disk: RecordedDisk, source: str, target: str) -> None:
        was_loaded.append(log.is_loaded)
        rename(disk, source, target)

    monkeypatch.setattr(RecordedDisk, "rename", noting)
    assert log.is_loaded
    if how == "delete":
        world.directories.delete(log, NOW)
    else:
        log.lend()
        world.directories.swap(log)
    assert not any(was_loaded)
    assert was_loaded


@pytest.mark.parametrize(
    ("cordoned", "expected"), [((), "abab"), (("a",), "bbbb"), (("b",), "aaaa"), (("a", "b"), "abab"), (("*",), "abab")]
)
def test_new_logs_go_where_the_fewest_are_and_not_where_none_are_wanted(
    tmp_path: Path, cordoned: tuple[str, ...], expected: str
) -> None:
    world = World(tmp_path)
    world.directories.begin()
    world.directories.roots.cordon([it if it == "*" else f"{world.disk.root}{it}" for it in cordoned])
    parents = [world.directories.create("t", index, TOPIC_ID, CONFIG).parent[-1] for index in range(4)]
    assert "".join(parents) == expected
    flags = [one.is_cordoned for one in world.directories.describe()]
    assert flags == [it in cordoned or "*" in cordoned for it in "ab"]
    world.directories.close()


@pytest.mark.parametrize(
    ("is_new", "preferred", "assigned", "expected"),
    [
        (True, None, None, "a"),
        (True, "b", None, "b"),
        (False, "b", None, "a"),
        (True, None, "b", "b"),
        (False, None, "b", "b"),
        (True, "a", "b", "a"),
        (False, "a", "b", "b"),
        (True, "elsewhere", None, "a"),
    ],
)
def test_a_log_lies_where_it_was_wanted_while_it_is_new_or_where_the_metadata_say(
    tmp_path: Path, is_new: bool, preferred: str | None, assigned: str | None, expected: str
) -> None:
    world = World(tmp_path)
    directories = world.directories
    directories.begin()
    ids = {one.path[-1]: one.directory_id for one in directories.roots.for_data}
    if preferred is not None:
        directories.preferred[KEY] = f"{world.disk.root}{preferred}"
    log = directories.create(
        *KEY, TOPIC_ID, CONFIG, is_new=is_new, assigned=None if assigned is None else ids[assigned]
    )
    assert (log.parent[-1], directories.preferred) == (expected, {})
    directories.abandon()


@pytest.mark.parametrize("name", ["recovery-point", "log-start", "cleaner", "replication"])
def test_what_checkpoints_say_of_a_log_that_is_gone_is_forgotten_when_one_of_its_name_comes(
    tmp_path: Path, name: str
) -> None:
    checkpoint = tmp_path / "a" / f"{name}-offset-checkpoint"
    checkpoint.parent.mkdir()
    checkpoint.write_text("0\n1\nt 0 4\n")
    world = World(tmp_path)
    world.directories.checkpoints.high_watermarks(world.directories.logs)
    world.with_log()
    assert "t 0" not in checkpoint.read_text()
    world.directories.abandon()


def test_a_copy_is_dropped_or_set_aside(world: World) -> None:
    world.future()
    assert world.did(lambda: world.directories.drop_future(KEY, NOW)) == ["rename b/t-0.#-future as b/t-0.#-delete"]
    assert not world.directories.futures
    world.future()
    assert world.did(lambda: world.directories.set_future_aside(KEY)) == ["rename b/t-0.#-future as b/t-0.#-stray"]
    assert not world.directories.futures
    future = world.future()
    world.disk.fail("sync", "b/")
    append(future, batch(1))
    with pytest.raises(KafkaError):
        future.flush()
    assert world.did(lambda: world.directories.drop_future(KEY, NOW)) == []
    assert not future.is_loaded, "its files are closed"


@pytest.mark.parametrize("is_single", [True, False])
def test_a_close_syncs_then_writes_checkpoints_and_marks_last(
    world: World, monkeypatch: pytest.MonkeyPatch, is_single: bool
) -> None:
    monkeypatch.setattr(directory_module, "MAX_SINGLE_SYNCS", int(is_single))
    names = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", ".kafka_cleanshutdown")
    first, second = ([f"replace durably {it}/{name}" for name in names] for it in ("a", "b"))
    done = world.did(world.directories.close)
    assert done[-6:] == [*first, *second]
    assert all(it.startswith("sync") for it in done[:-6])
    assert ("sync a/t-0/.log" in done, "sync file system a/.lock" in done) == (is_single, not is_single)


def test_a_copy_is_closed_before_its_directory_is_marked(world: World) -> None:
    append(world.future(), batch(5))
    done = world.did(world.directories.close)
    marks = [done.index(f"replace durably {it}/.kafka_cleanshutdown") for it in ("a", "b")]
    assert marks[0] < done.index("sync b/t-0.#-future/.log") < marks[1]


def test_what_a_refused_start_has_appended_is_known_to_the_next_one(world: World) -> None:
    world.directories.close()
    directories = world.opened()
    directories.begin()
    append(world.log, batch(2))
    directories.give_back()
    again = world.opened()
    assert again.roots.was_clean
    assert (world.log.log_end_offset, world.log.is_loaded) == (7, False)
    assert world.log.read(5, 1).length > 0


@pytest.mark.parametrize("has_begun", [True, False])
@pytest.mark.parametrize("is_trusted", [True, False])
def test_a_refused_start_leaves_clean_what_was_clean_and_is_trusted(
    world: World, has_begun: bool, is_trusted: bool
) -> None:
    world.directories.close(broker_epoch=7)
    directories = world.opened()
    if has_begun:
        directories.begin()
    if not is_trusted:
        world.log._unread.distrust()
    done = world.did(directories.give_back)
    marked = {it for it in done if it.endswith(".kafka_cleanshutdown")}
    assert marked == {
        f"replace durably {it}/.kafka_cleanshutdown" for it in ("a", "b") if has_begun and (is_trusted or it == "b")
    }
    assert has_begun or not done
    again = world.opened().roots
    is_clean = {one.path[-1]: (one.is_clean, one.clean_broker_epoch) for one in again.online}
    whole = (True, 7)
    assert is_clean == {"a": whole if is_trusted or not has_begun else (False, -1), "b": whole}


def test_nothing_is_open_or_known_after_a_crash(world: World) -> None:
    log, future = world.log, world.future()
    assert world.did(world.directories.abandon) == []
    assert (log.is_loaded, future.is_loaded) == (False, False)
    assert (world.directories.logs, world.directories.futures) == ({}, {})
    world.opened().abandon()


def test_only_the_files_of_a_kind_are_discarded(world: World) -> None:
    world.log.segments.active.save_indexes(is_final=True, durable=False)
    kept = set(world.disk.names(world.log.directory))
    world.directories.discard(world.log, ".timeindex")
    assert kept - set(world.disk.names(world.log.directory)) == {f"{0:020}.timeindex"}


@pytest.mark.parametrize("where", ["a", "b"])
def test_a_swap_that_is_not_sure_to_last_leaves_everything_where_it_was(
    world: World, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Too many files are open for a moment: what is appended from then on must not go to a directory to be removed."""
    log, future = world.log, world.future()
    append(future, batch(5))
    future.close(durable=True)
    sync_directory = RecordedDisk.sync_directory

    def refuse(disk: RecordedDisk, path: str) -> None:
        if path == f"{disk.root}{where}":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        sync_directory(disk, path)

    log.lend()
    with monkeypatch.context() as refusing:
        refusing.setattr(RecordedDisk, "sync_directory", refuse)
        with pytest.raises(KafkaError, match="renaming"):
            world.directories.swap(log)
    log.take_back(is_whole=True)
    assert sorted(path.name for path in Path(log.parent).iterdir() if path.is_dir()) == ["t-0"]
    assert append(log, batch(1)) == 5
    assert Path(future.directory).is_dir()
    log.close()
    world.directories.swapped(log, world.directories.swap(log), NOW)
    assert log.parent == f"{world.disk.root}b"


def test_where_names_cannot_be_given_back_the_directory_is_offline(world: World) -> None:
    log, future = world.log, world.future()
    future.close(durable=True)
    world.disk.fail("sync directory", "/b", errno.ENOSPC)
    world.disk.fail("rename", "-delete", errno.ENOSPC)
    with pytest.raises(KafkaError):
        world.directories.swap(log)
    assert log.health.failure is not None
    assert future.health.failure is not None


def test_the_first_flush_of_a_log_makes_its_id_outlive_a_power_cut_too(world: World) -> None:
    metadata = "sync a/t-0/partition.metadata"
    assert world.did(world.log.flush)[:4] == ["sync a/t-0/.log", metadata, "sync directory a/t-0", "sync directory a"]
    world.log.load().roll(5, NOW)
    append(world.log, batch(5))
    done = world.did(world.log.flush)
    assert "sync directory a" in done
    assert metadata not in done, "once"


def test_the_end_of_a_log_that_a_crash_left_is_synced_before_anything_is_appended(world: World) -> None:
    """It was cut, and had been flushed before: a power cut would bring that back, before newer records elsewhere."""
    append(world.log, batch(5))
    world.log.flush()
    world.log.truncate_to(5)
    world.directories.create("t", 1, TOPIC_ID, CONFIG)
    world.directories.abandon()
    done = world.did(world.opened)
    assert [one for one in done if one.startswith("sync ")] == ["sync a/t-0/.log"]


def test_a_cut_that_failed_half_way_is_known_to_have_begun(world: World) -> None:
    """What is appended after that may lie where records were flushed before."""
    append(world.log, batch(5))
    world.log.flush()
    world.disk.fail("truncate", ".log", errno.ENOSPC)
    with pytest.raises(KafkaError):
        world.log.truncate_to(5)
    assert world.log.recovery_point <= 5
    assert world.log.load().rewritten_below == 10
