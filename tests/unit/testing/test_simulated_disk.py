"""A simulated disk: what it holds, where it has no room, and each fault alone."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random
from typing import Any, cast

import pytest

from penstock.log.disk import SyncFailedError
from penstock.testing.simulator.disk import DISK_BYTES, DiskConditions, HostDisk, SimulatedDisk
from penstock.testing.simulator.loop import EPOCH_MS, KilledError, Process, VirtualLoop


class Drawn:
    """What is drawn is the largest there is, or what a test says."""

    def __init__(self) -> None:
        self.chance = 0.5

    def random(self) -> float:
        return self.chance

    def randrange(self, stop: int) -> int:
        return stop // 2

    def uniform(self, low: float, high: float) -> float:
        return high


class Host:
    """A host with two disks, and a process on it."""

    def __init__(self) -> None:
        self.loop, self.drawn = VirtualLoop(Random(1)), Drawn()
        self.host = HostDisk(self.loop, cast("Any", self.drawn))
        self.process = Process("h")
        self.disk = SimulatedDisk(self.host, self.process)
        self.written: list[tuple[str, bytes]] = []
        self.host.on_write = lambda path, content: self.written.append((path, content))
        self.host.on_crash = self.process.kill
        for path in ("/data", "/more"):
            self.host.add_root(path)

    def write(self, path: str, content: bytes) -> None:
        self.disk.open(path, create=True).write_at(content, 0)


def number_of(call: Callable[[], object]) -> int | None:
    """Of the error that it raises."""
    try:
        call()
    except OSError as error:
        return error.errno
    return None


@pytest.fixture
def host() -> Host:
    return Host()


FULL = [
    (DiskConditions(), (False, False)),
    (DiskConditions(full=True), (True, True)),
    (DiskConditions(full_disks=frozenset({"data"})), (True, False)),
    (DiskConditions(full_disks=frozenset({"data", "more"})), (True, True)),
]


@pytest.mark.parametrize(("conditions", "full"), FULL, ids=range(len(FULL)))
@pytest.mark.parametrize("chance", [0.49, 0.5])
def test_a_disk_that_is_full(host: Host, conditions: DiskConditions, full: tuple[bool, bool], chance: float) -> None:
    for root in ("data", "more"):
        host.write(f"/{root}/1.log", b"old")
        host.write(f"/{root}/1.index", b"index")
    used = 2 * len(b"oldindex")
    host.host.conditions, host.drawn.chance = conditions, chance
    for root, is_full in zip(("data", "more"), full, strict=True):
        path = f"/{root}/1.log"
        assert host.host.is_full(root) is is_full
        assert host.disk.space(path) == (DISK_BYTES, 0 if is_full else DISK_BYTES - used)
        content = b"larger" if is_full else b"lar"
        assert number_of(lambda path=path, content=content: host.write(path, content)) == (  # type: ignore[misc]
            errno.ENOSPC if is_full else None
        )
        assert host.disk.read_file(path) == b"lar", "a part of it is there"
        assert host.host.refusals[f"/{root}"] == int(is_full)
        assert (number_of(lambda root=root: host.write(f"/{root}/1.index", b"index")) is not None) is is_full  # type: ignore[misc]
        assert host.host.refusals[f"/{root}"] == int(is_full), "segments alone are counted"
        made = number_of(lambda root=root: host.disk.open(f"/{root}/new", create=True))  # type: ignore[misc]
        assert made == (errno.ENOSPC if is_full and chance < 0.5 else None)
        assert host.disk.exists(f"/{root}/new") is (made is None)


def test_all_writes_are_told(host: Host) -> None:
    host.write("/data/a", b"one")
    host.host.conditions = DiskConditions(full=True)
    assert number_of(lambda: host.write("/data/a", b"two")) == errno.ENOSPC
    assert host.written == [("/data/a", b"one"), ("/data/a", b"two")]


def test_some_of_a_directory_goes_at_a_time(host: Host) -> None:
    host.disk.make_directory("/data/d")
    for name in "cab":
        host.write(f"/data/d/{name}", b"x")
    assert host.disk.remove_some("/data/d", 2) == 2
    assert host.disk.names("/data/d") == ["c"]
    assert host.disk.remove_some("/data/d", 1) == 1
    assert host.disk.is_directory("/data/d"), "there may be more"
    assert host.disk.remove_some("/data/d", 1) == 0
    assert not host.disk.exists("/data/d")


def test_a_tree_goes_as_a_whole(host: Host) -> None:
    host.disk.make_directory("/data/d/e", parents=True)
    host.write("/data/d/e/f", b"x")
    calls = host.host.calls
    host.disk.remove_tree("/data/d")
    assert host.disk.names("/data") == []
    assert host.host.calls == calls + 3, "one call after the other"
    host.disk.remove_tree("/data/d")


def test_what_there_is(host: Host) -> None:
    host.disk.make_directory("/data/b")
    host.disk.make_directory("/data/a")
    host.write("/data/1.log", b"123")
    host.write("/data/2.log", b"45")
    host.write("/data/2.index", b"6")
    disk = host.disk
    assert disk.names("/data") == ["1.log", "2.index", "2.log", "a", "b"]
    assert list(disk.directories("/data")) == ["b", "a"]
    assert disk.sizes("/data") == {"b": 0, "a": 0, "1.log": 3, "2.log": 2, "2.index": 1}
    assert (disk.bytes_of_files("/data", ".log"), disk.bytes_of_files("/none", ".log")) == (5, 0)
    assert (disk.file_size("/data/1.log"), disk.file_size("/data/none"), disk.file_size("/data/a")) == (3, 0, 0)
    assert (disk.read_file("/data/1.log"), disk.read_file("/data/none"), disk.read_file("/data/a")) == (
        b"123",
        None,
        None,
    )
    assert (disk.is_directory("/data/a"), disk.is_directory("/data/1.log")) == (True, False)
    assert disk.in_threads(lambda path: path == "x", ["x", "y"], 4) == [True, False]
    host.loop.advance(2.0)
    host.write("/data/1.log", b"9")
    assert (disk.modified_ms("/data/1.log"), disk.modified_ms("/data/2.log")) == (EPOCH_MS + 2_000, EPOCH_MS)
    assert disk.read_file("/data/1.log") == b"923"
    for path, expected in (("/data/a", errno.EISDIR), ("/data/none", errno.ENOENT)):
        assert number_of(lambda path=path: disk.open(path)) == expected  # type: ignore[misc]
    assert number_of(lambda: disk.make_directory("/data/1.log")) == errno.EEXIST
    assert number_of(lambda: disk.make_directory("/data/x/y")) == errno.ENOENT
    assert number_of(lambda: disk.rename("/data/none", "/data/other")) == errno.ENOENT
    disk.rename("/data/1.log", "/data/3.log")
    assert "1.log" not in disk.names("/data")
    assert disk.file_size("/data/3.log") == 3


@pytest.mark.parametrize("count", [1, 2, 3])
def test_one_call_fails_and_the_next_ones_do_not(host: Host, count: int) -> None:
    file = host.disk.open("/data/a", create=True)
    host.host.error_in = count
    found = [number_of(lambda: file.write_at(b"abcd", 0)) for _ in range(4)]
    assert found == [errno.EIO if number == count else None for number in range(1, 5)]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_process_dies_in_a_call(host: Host, count: int) -> None:
    file = host.disk.open("/data/a", create=True)
    host.host.crash_in = count
    for _ in range(count - 1):
        file.truncate(0)
    with pytest.raises(KilledError):
        file.write_at(b"abcd", 0)
    assert not host.process.is_alive
    other = SimulatedDisk(host.host, Process("h"))
    assert other.read_file("/data/a") == b"ab", "half of it is written"
    assert host.host.crash_in is None
    with pytest.raises(KilledError):
        file.read_at(1, 0)


def test_a_dead_disk_does_nothing(host: Host) -> None:
    host.write("/data/a", b"x")
    host.write("/more/a", b"x")
    host.host.conditions = DiskConditions(dead=frozenset({"data"}))
    disk = host.disk
    calls: list[Callable[[str], object]] = [
        disk.read_file,
        disk.open,
        disk.has_directory,
        disk.space,
        disk.remove,
        lambda path: disk.make_directory(f"{path}/d"),
        lambda path: disk.directories(path.rpartition("/")[0]),
        lambda path: disk.sizes(path.rpartition("/")[0]),
    ]
    for call in calls:
        assert number_of(lambda call=call: call("/data/a")) == errno.EIO  # type: ignore[misc]
    for call in calls[:4]:
        assert number_of(lambda call=call: call("/more/a")) is None  # type: ignore[misc]


@pytest.mark.parametrize(("share", "fails"), [(0.5, False), (0.51, True)])
def test_shares_of_reads_and_syncs_fail(host: Host, share: float, fails: bool) -> None:
    host.write("/data/a", b"old")
    file = host.disk.open("/data/a")
    file.sync()
    file.write_at(b"new", 0)
    host.host.conditions = DiskConditions(read_errors=share)
    reads: list[Callable[[], object]] = [lambda: file.read_at(3, 0), lambda: host.disk.read_file("/data/a")]
    assert [number_of(read) for read in reads] == [errno.EIO if fails else None] * 2
    host.host.conditions = DiskConditions(sync_errors=share)
    if fails:
        with pytest.raises(SyncFailedError):
            file.sync()
    else:
        file.sync()
    assert host.host.has_lost is fails
    assert file.read_at(9, 0) == b"new"
    file.forget_cache()
    assert file.read_at(9, 0) == (b"old" if fails else b"new")


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_sync_holds_up_a_process_that_waits_for_it(host: Host, in_thread: bool) -> None:
    host.process.in_thread = in_thread
    host.host.conditions = DiskConditions(sync_s=0.25)
    host.write("/data/a", b"x")
    host.disk.open("/data/a").sync()
    host.disk.sync_directory("/data")
    assert host.loop.moment == (0.0 if in_thread else 0.5)


def test_a_lock_is_of_a_process_that_lives(host: Host) -> None:
    other = SimulatedDisk(host.host, Process("h"))
    held = host.disk.lock("/data/.lock")
    assert held is not None
    assert other.lock("/data/.lock") is None
    held.close()
    taken = other.lock("/data/.lock")
    assert taken is not None
    held.close()
    assert host.disk.lock("/data/.lock") is None
    other._process.kill()
    assert host.disk.lock("/data/.lock") is not None


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_replaced_step_by_step(host: Host, durable: bool) -> None:
    host.disk.replace_file("/data/a", b"old", durable=True)
    before = host.host.calls
    host.disk.replace_file("/data/a", b"new", durable=durable)
    assert host.host.calls - before == (6 if durable else 4)
    assert host.disk.names("/data") == ["a"]
    durable_file = host.host.find("/data/a")
    assert cast("Any", durable_file).durable == (b"new" if durable else b"")
    directory = host.host.directory("/data")
    assert (directory.durable.get("a") is durable_file) is durable
    host.host.sync()
    assert cast("Any", durable_file).durable == b"new"
    assert directory.durable["a"] is durable_file
