"""Which log directories a node has, whose they are, and whether it can do with those that are online."""

import errno
import json
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from penstock.log.directories.errors import (
    CopiedDirectoryError,
    ForeignDirectoryError,
    LogDirectoryError,
    OfflineDirectoryError,
    UnusableDirectoryError,
)
from penstock.log.directories.log_roots import LogRoots
from penstock.log.directories.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from penstock.log.disk import Disk
from penstock.log.names import CLEAN_SHUTDOWN

NAMES = ("a", "b", "c")


class World:
    """Up to three directories for data, and one for the metadata log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metadata: str | None = str(path / "m")
        self.opened: LogRoots | None = None

    def at(self, name: str) -> str:
        return str(self.path / name)

    def identify(self, name: str, number: int | None, *, cluster_id: str = "c", node_id: int = 1) -> None:
        Path(self.at(name)).mkdir(exist_ok=True)
        directory_id = None if number is None else UUID(int=number)
        identity = MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=directory_id)
        write_meta_properties(Disk(), self.at(name), identity)

    def open(self, *names: str, cluster_id: str | None = None) -> LogRoots:
        if self.opened is not None:
            self.opened.abandon()
        paths = [self.at(name) for name in names or NAMES]
        self.opened = LogRoots(
            Disk(), paths, node_id=1, random=Random(1), metadata_path=self.metadata, cluster_id=cluster_id
        )
        return self.opened


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def fail(roots: LogRoots, world: World, *names: str) -> None:
    for name in names:
        roots[world.at(name)].health.report(OSError(errno.EIO, "Input/output error"), "reading")


def test_each_has_its_id_and_only_those_for_data_count(world: World) -> None:
    for number, name in enumerate((*NAMES, "m"), start=1):
        world.identify(name, number)
    roots = world.open()
    assert roots.paths == [world.at(name) for name in (*NAMES, "m")]
    assert [one.path for one in roots.for_data] == roots.paths[:3]
    assert (roots.online_ids, roots.offline_ids, roots.cluster_id) == ([UUID(int=it) for it in (1, 2, 3)], [], "c")
    assert [roots.id_of(path) for path in roots.paths] == [*roots.online_ids, None]
    fail(roots, world, "b", "m")
    assert (roots.online_ids, roots.offline_ids) == ([UUID(int=1), UUID(int=3)], [UUID(int=2)])
    assert [one.path for one in roots.online] == [world.at("a"), world.at("c")]
    assert [one.path for one in roots.offline] == [world.at("b"), world.at("m")]


def test_those_without_an_id_are_in_no_list_of_ids(world: World) -> None:
    """One that is offline when it is opened says nothing of itself."""
    world.identify("a", 1)
    Path(world.at("b")).touch()
    roots = world.open("a", "b")
    assert (roots.online_ids, roots.offline_ids) == ([UUID(int=1)], [])
    roots.cordon(["*"])
    assert roots.cordoned_ids == [UUID(int=1)]


def test_a_missing_one_gets_its_identity_when_it_is_made(world: World) -> None:
    world.identify("a", 1)
    world.identify("b", None)
    before = read_meta_properties(Disk(), world.at("b"))
    roots = world.open()
    drawn = roots[world.at("c")].directory_id
    assert (roots[world.at("c")].is_missing, Path(world.at("c")).exists()) == (True, False)
    assert read_meta_properties(Disk(), world.at("b")) == before, "nothing is written yet"
    roots.make()
    assert not roots[world.at("c")].is_missing
    again = world.open()
    found = [again.id_of(world.at(name)) for name in NAMES]
    assert (found[0], found[2], len({*found, None})) == (UUID(int=1), drawn, 4)
    assert {again[path].directory_id for path in again.paths} >= {*found}
    for path in again.paths:
        identity = read_meta_properties(Disk(), path)
        assert identity is not None
        assert (identity.cluster_id, identity.node_id) == ("c", 1)


def test_the_clusters_id_is_asked_for_or_found_or_drawn(world: World) -> None:
    assert world.open(cluster_id="asked").cluster_id == "asked"
    drawn = world.open().cluster_id
    assert len(drawn) == 22
    world.identify("b", 2, cluster_id="found")
    assert world.open().cluster_id == "found"
    with pytest.raises(ForeignDirectoryError, match=r"cluster.id found, this node has cluster.id asked"):
        world.open(cluster_id="asked")
    world.identify("a", 1, cluster_id="another")
    with pytest.raises(ForeignDirectoryError, match=r"cluster.id found, this node has cluster.id another"):
        world.open()
    world.identify("a", 1, cluster_id="found", node_id=2)
    with pytest.raises(ForeignDirectoryError, match=r"node.id 2, this node has node.id 1"):
        world.open()


def test_two_with_one_id_are_refused_and_those_that_were_locked_are_free_again(world: World) -> None:
    world.identify("a", 1)
    world.identify("c", 1)
    with pytest.raises(CopiedDirectoryError, match=f"{world.at('a')} and {world.at('c')} both have"):
        world.open()
    world.identify("c", 3)
    assert len(world.open().online) == 4


@pytest.mark.parametrize(
    ("marks", "is_clean", "epoch"),
    [
        ((7, 7), True, 7),
        ((7, 8), True, -1),
        ((7, None), False, -1),
        ((None, 7), False, -1),
        ((-1, -1), True, -1),
        ((None, None), False, -1),
    ],
)
def test_all_were_closed_cleanly_by_one_broker(
    world: World, marks: tuple[int | None, ...], is_clean: bool, epoch: int
) -> None:
    world.metadata = None
    for number, (name, mark) in enumerate(zip("ab", marks, strict=True), start=1):
        world.identify(name, number)
        if mark is not None:
            Path(world.at(name), CLEAN_SHUTDOWN).write_text(json.dumps({"version": 0, "brokerEpoch": mark}))
    roots = world.open("a", "b")
    assert (roots.was_clean, roots.clean_broker_epoch) == (is_clean, epoch)
    fail(roots, world, "b")
    assert (roots.was_clean, roots.clean_broker_epoch) == (marks[0] is not None, -1 if marks[0] is None else marks[0])
    fail(roots, world, "a")
    assert roots.clean_broker_epoch == -1


@pytest.mark.parametrize(
    ("wanted", "cordoned"),
    [((), ""), (("a",), "a"), (("c/", "b"), "bc"), (("*",), "abc"), (("b", "*"), "abc"), (("elsewhere", "m"), "")],
)
def test_those_that_are_to_get_no_new_replicas(world: World, wanted: tuple[str, ...], cordoned: str) -> None:
    for number, name in enumerate((*NAMES, "m"), start=1):
        world.identify(name, number)
    roots = world.open()
    roots.cordon([world.at("a")])
    roots.cordon([one if one == "*" else f"{world.path}/{one}" for one in wanted])
    assert "".join(name for name in (*NAMES, "m") if roots.is_cordoned(world.at(name))) == cordoned
    assert roots.cordoned_ids == [roots.id_of(world.at(name)) for name in cordoned]


@pytest.mark.parametrize(
    ("failed", "why"),
    [
        ((), None),
        (("a", "b"), None),
        (("m",), "m is offline.*without its metadata log"),
        (("a", "b", "c"), "a is offline.*no other directory for data"),
    ],
)
def test_a_node_needs_the_metadata_log_and_one_directory_for_data(
    world: World, failed: tuple[str, ...], why: str | None
) -> None:
    roots = world.open()
    told = list[str]()
    roots.on_failure(told.append)
    fail(roots, world, *failed)
    assert told == [world.at(name) for name in failed]
    problem = roots.why_unusable()
    if why is None:
        assert problem is None
        roots.check()
        return
    assert isinstance(problem, OfflineDirectoryError)
    assert problem.path == world.at(failed[0])
    with pytest.raises(OfflineDirectoryError, match=why):
        roots.check()


@pytest.mark.parametrize("name", ["a", "m"])
def test_one_that_cannot_be_opened_is_told_and_needed_or_not(
    world: World, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    Path(world.at(name)).touch()
    if name == "m":
        with pytest.raises(UnusableDirectoryError, match="is a file"):
            world.open()
        return
    assert [one.path for one in world.open().offline] == [world.at(name)]
    assert "This node starts without it" in caplog.text
    with pytest.raises(UnusableDirectoryError, match="is a file"):
        world.open(name)


@pytest.mark.parametrize("is_there", [True, False])
def test_one_that_cannot_be_made_is_offline_and_the_others_are_made(world: World, *, is_there: bool) -> None:
    if is_there:
        Path(world.at("b")).mkdir()
    roots = world.open("a", "b")
    if is_there:
        Path(world.at("b"), "meta.properties.tmp").mkdir()
    else:
        Path(world.at("b")).touch()
    roots.make()
    assert [one.path for one in roots.offline] == [world.at("b")]
    assert isinstance(roots.offline[0].problem, UnusableDirectoryError)
    assert read_meta_properties(Disk(), world.at("a")) is not None
    roots.make()


def test_where_the_needed_one_cannot_be_made_that_is_told(world: World) -> None:
    roots = world.open("a", "b")
    Path(world.at("m")).touch()
    with pytest.raises(LogDirectoryError) as refused:
        roots.make()
    assert refused.value.path == world.at("m")
