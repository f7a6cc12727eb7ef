"""Log directories get their identity before a node uses them, all of them or none."""

import errno
from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from tests.unit.log.recorded_disk import RecordedDisk

from penstock.log.directories.errors import (
    BadMetaPropertiesError,
    ForeignDirectoryError,
    UnformattedMetadataError,
    UnusableDirectoryError,
)
from penstock.log.directories.formatting import (
    AlreadyFormattedError,
    any_formatted,
    format_directories,
    identities,
    write_first_snapshot,
)
from penstock.log.directories.meta_properties import (
    MetaProperties,
    parse_properties,
    read_meta_properties,
    write_meta_properties,
)
from penstock.log.disk import Disk
from penstock.protocol.internal_topics import CLUSTER_METADATA

HERE = UUID(int=5)


class Directories:
    def __init__(self, path: Path) -> None:
        self.paths = [str(path / name / "data") for name in "abc"]

    def format(self, *paths: str, node_id: int = 1, cluster_id: str = "one", ignores: bool = False) -> list[str]:
        made = format_directories(
            Disk(),
            paths,
            cluster_id=cluster_id,
            node_id=node_id,
            random=Random(1),
            ignore_formatted=ignores,
            directory_ids={self.paths[1]: HERE},
        )
        return list(made)

    @property
    def formatted(self) -> list[bool]:
        return [found is not None for found in identities(Disk(), self.paths).values()]


@pytest.fixture
def directories(tmp_path: Path) -> Directories:
    return Directories(tmp_path)


def test_each_gets_its_own_id_or_the_one_that_is_asked_for(directories: Directories) -> None:
    first, second, third = directories.paths
    assert directories.format(first, second, first) == [first, second]
    found = identities(Disk(), directories.paths)
    assert found[second] == MetaProperties(cluster_id="one", node_id=1, directory_id=HERE)
    assert found[third] is None
    one = found[first]
    assert one is not None
    assert one.directory_id not in (None, HERE)


def test_what_is_formatted_already_stays_as_it_is(directories: Directories) -> None:
    first, second, third = directories.paths
    directories.format(first)
    before = identities(Disk(), [first])
    with pytest.raises(AlreadyFormattedError, match=first):
        directories.format(second, first)
    assert directories.formatted == [True, False, False]
    assert directories.format(second, first, third, ignores=True) == [second, third]
    assert identities(Disk(), [first]) == before


@pytest.mark.parametrize(("node_id", "cluster_id", "key"), [(2, "one", "node.id"), (1, "two", "cluster.id")])
def test_none_is_formatted_beside_one_of_another_node_or_cluster(
    directories: Directories, node_id: int, cluster_id: str, key: str
) -> None:
    first, second, _ = directories.paths
    directories.format(first)
    with pytest.raises(ForeignDirectoryError, match=key):
        directories.format(second, first, node_id=node_id, cluster_id=cluster_id, ignores=True)
    assert directories.formatted == [True, False, False]


def test_one_that_is_formatted_is_found_beside_others_that_cannot_be_read(directories: Directories) -> None:
    first, second, third = directories.paths
    for path in (first, second):
        Path(path).mkdir(parents=True)
    (Path(first) / "meta.properties").write_text("version=7\n")
    (Path(second) / "meta.properties").mkdir()
    assert not any_formatted(Disk(), directories.paths)
    directories.format(third)
    assert any_formatted(Disk(), directories.paths)
    with pytest.raises(BadMetaPropertiesError):
        identities(Disk(), directories.paths)


class ReadOnly(Disk):
    def make_directory(self, path: str, *, parents: bool = False) -> None:
        raise OSError(errno.EROFS, "read-only", path)


def test_a_directory_that_cannot_be_made_is_told(directories: Directories) -> None:
    path = directories.paths[0]
    with pytest.raises(UnusableDirectoryError, match="read-only"):
        list(format_directories(ReadOnly(), [path], cluster_id="one", node_id=1, random=Random(1)))
    with pytest.raises(UnusableDirectoryError, match="read-only"):
        write_first_snapshot(ReadOnly(), path, "0-0.checkpoint", b"content")


def test_the_first_snapshot_is_written_where_there_is_no_other_metadata_log(directories: Directories) -> None:
    path = Path(directories.paths[0])
    path.mkdir(parents=True)
    log = path / f"{CLUSTER_METADATA}-0"
    for content in (b"interrupted", b"content"):
        write_first_snapshot(Disk(), str(path), "0-0.checkpoint", content)
        assert [(one.name, one.read_bytes()) for one in log.iterdir()] == [("0-0.checkpoint", content)]
        (log / "0-0.checkpoint.tmp").touch()
    (log / "other.log").touch()
    with pytest.raises(UnformattedMetadataError):
        write_first_snapshot(Disk(), str(path), "0-0.checkpoint", b"again")
    assert (log / "0-0.checkpoint").read_bytes() == b"content"


def test_what_is_formatted_outlives_a_power_cut(tmp_path: Path) -> None:
    disk, path = RecordedDisk(tmp_path), str(tmp_path / "a")
    list(format_directories(disk, [path], cluster_id="one", node_id=1, random=Random(1)))
    assert disk.take() == ["make a", "replace durably a/meta.properties"]
    write_first_snapshot(disk, path, "0-0.checkpoint", b"content")
    log = f"a/{CLUSTER_METADATA}-0"
    assert disk.take() == [f"make {log}", f"replace durably {log}/0-0.checkpoint", "sync directory a"]


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("", {}),
        ("a=1", {"a": "1"}),
        ("\n  \n# c=2\n  ! d=3\n a = 1 \nb=x=y\n\n", {"a": "1", "b": "x=y"}),
        ("a\n", {"a": ""}),
        ("a=1\na=2\n", {"a": "2"}),
    ],
)
def test_properties_are_lines_and_some_are_comments(text: str, pairs: dict[str, str]) -> None:
    assert parse_properties(text) == pairs


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("version=1\ncluster.id=c\nnode.id=3\n", (3, None)),
        ("version=0\ncluster.id=c\nbroker.id=3\n", (3, None)),
        ("version=1\ncluster.id=c\nnode.id=0\ndirectory.id=AAAAAAAAAAAAAAAAAAAABQ\n", (0, HERE)),
        ("version=1\ncluster.id=c\nbroker.id=3\n", "lacks node.id"),
        ("version=0\ncluster.id=c\nnode.id=3\n", "lacks broker.id"),
        ("version=1\ncluster.id=\nnode.id=3\n", "lacks cluster.id"),
        ("version=1\ncluster.id=c\nnode.id=-3\n", "has node.id=-3, which is not a number"),
        ("version=2\ncluster.id=c\nnode.id=3\n", "has version 2, which is not 0 or 1"),
        ("cluster.id=c\nnode.id=3\n", "has version None"),
        ("version=1\ncluster.id=c\nnode.id=3\ndirectory.id=x\n", "has directory.id=x, which is not a uuid"),
    ],
)
def test_whose_a_directory_is_is_read_or_told_to_be_nonsense(
    tmp_path: Path, content: str, found: str | tuple[int, UUID | None]
) -> None:
    assert read_meta_properties(Disk(), str(tmp_path)) is None
    (tmp_path / "meta.properties").write_text(content)
    if isinstance(found, str):
        with pytest.raises(BadMetaPropertiesError, match=found):
            read_meta_properties(Disk(), str(tmp_path))
        return
    expected = MetaProperties(cluster_id="c", node_id=found[0], directory_id=found[1])
    assert read_meta_properties(Disk(), str(tmp_path)) == expected
    write_meta_properties(Disk(), str(tmp_path), expected)
    assert read_meta_properties(Disk(), str(tmp_path)) == expected
