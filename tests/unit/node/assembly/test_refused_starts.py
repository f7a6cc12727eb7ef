"""A start that is refused leaves the directories as they were, to the byte: it looks first, and touches later."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.node.stopped_node import FIRST_LOG, METADATA, append, config, files, stop_a_node

from penstock.log.names import LOCK
from penstock.metadata.features import ELIGIBLE_LEADER_REPLICAS, METADATA_VERSION
from penstock.metadata.record_frames import encode_record
from penstock.metadata.records import ConfigRecord, FeatureLevelRecord
from penstock.metadata.snapshot import snapshot_name
from penstock.node.assembly.start import StartError, start_node


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """The directories of a node that was stopped cleanly; in the first one lies the metadata log."""
    stop_a_node(tmp_path)
    return tmp_path


def flip_a_byte_of_the_log(tmp_path: Path) -> None:
    path = tmp_path / "p1" / FIRST_LOG
    content = bytearray(path.read_bytes())
    content[90] ^= 1
    path.write_bytes(content)


def write(name: str, text: str) -> Callable[[Path], None]:
    def damage(tmp_path: Path) -> None:
        (tmp_path / name).write_text(text)

    return damage


def copy_the_identity(tmp_path: Path) -> None:
    (tmp_path / "p2" / "meta.properties").write_bytes((tmp_path / "p1" / "meta.properties").read_bytes())


def the_metadata_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "p2" / METADATA).mkdir()


NEWER_SNAPSHOT = f"p1/{METADATA}/{snapshot_name(1, 1)}"
KINDS: dict[str, tuple[Callable[[Path], None], str]] = {
    "the state of the quorum": (write(f"p1/{METADATA}/quorum-state", "nonsense"), "quorum-state"),
    "a snapshot": (write(NEWER_SNAPSHOT, "nonsense"), "ends before its footer"),
    "a damaged record": (flip_a_byte_of_the_log, "damaged"),
    "an unknown type": (append(b"\x01\x63\x00\x00\x00"), "unknown type 99"),
    "an unknown version": (append(b"\x01\x03\x63\x00\x00"), "PartitionRecord is of the unknown version 99"),
    "no frame": (append(b"\x07\x03\x00\x00"), "frame has version 7"),
    "a newer level": (
        append(encode_record(FeatureLevelRecord(name=METADATA_VERSION, feature_level=999))),
        "unknown level 999",
    ),
    "an unknown resource": (
        append(encode_record(ConfigRecord(resource_type=77, resource_name="a", name="b", value="c"))),
        "unknown type 77",
    ),
    "a level of a feature": (
        append(encode_record(FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS, feature_level=9))),
        "level 9 of eligible.leader.replicas.version, known are 0 to 1",
    ),
    "a copied directory": (copy_the_identity, "one is a copy of the other"),
    "the identity": (write("p2/meta.properties", "cluster.id=other\nnode.id=1\nversion=1\n"), "belongs to cluster.id"),
    "the metadata log elsewhere": (the_metadata_elsewhere, "metadata.log.dir"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_read_is_refused_before_anything_is_touched(stopped: Path, kind: str) -> None:
    damage, why = KINDS[kind]
    damage(stopped)
    before = files(stopped)
    for _ in range(2):
        with pytest.raises(StartError, match=why):
            asyncio.run(start_node(config(stopped)))
        assert files(stopped) == before


@pytest.mark.parametrize("settings", [{"node_id": "2"}, {"log_dirs": "{}/p1/file,{}/p2"}])
def test_settings_that_do_not_fit_are_refused_likewise(stopped: Path, settings: dict[str, str]) -> None:
    (stopped / "p1" / "file").write_text("not a directory")
    before = files(stopped)
    with pytest.raises(StartError):
        asyncio.run(
            start_node(config(stopped, **{key: value.replace("{}", str(stopped)) for key, value in settings.items()}))
        )
    assert files(stopped) == before


@pytest.mark.parametrize("dirs", ["{}/p1,{}/new/deep", "{}/new/deep,{}/p2"])
def test_a_directory_that_is_missing_is_not_made_by_a_start_that_is_refused(stopped: Path, dirs: str) -> None:
    for number in (1, 2):
        write(f"p{number}/meta.properties", "cluster.id=other\nnode.id=2\nversion=1\n")(stopped)
    before = files(stopped)
    with pytest.raises(StartError, match=r"belongs to node\.id 2"):
        asyncio.run(start_node(config(stopped, log_dirs=dirs.replace("{}", str(stopped)))))
    assert files(stopped) == before


@pytest.mark.parametrize("kind", ["the state of the quorum", "a damaged record"])
def test_nor_by_one_whose_metadata_cannot_be_read(stopped: Path, kind: str) -> None:
    KINDS[kind][0](stopped)
    (stopped / "empty").mkdir()
    (stopped / "empty" / LOCK).touch()
    before = files(stopped)
    with pytest.raises(StartError, match=KINDS[kind][1]):
        asyncio.run(start_node(config(stopped, log_dirs=f"{stopped}/p1,{stopped}/empty,{stopped}/new")))
    assert files(stopped) == before, "an empty one gets no identity either"


def test_nor_where_another_cannot_be_made(stopped: Path) -> None:
    (stopped / "file").touch()
    before = files(stopped)
    with pytest.raises(StartError, match="is a file"):
        asyncio.run(start_node(config(stopped, log_dirs=f"{stopped}/file/a,{stopped}/new")))
    assert files(stopped) == before


def test_directories_that_are_missing_are_made_by_a_start(stopped: Path) -> None:
    async def run() -> None:
        dirs = f"{stopped}/p1,{stopped}/p2,{stopped}/new/deep"
        await (await start_node(config(stopped, log_dirs=dirs))).stop()

    asyncio.run(run())
    assert (stopped / "new" / "deep" / "meta.properties").exists()


def test_a_taken_port_is_refused_likewise(stopped: Path) -> None:
    before = files(stopped)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(StartError, match="cannot listen"):
            asyncio.run(start_node(config(stopped, listeners=f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}")))
    assert files(stopped) == before


def test_nothing_is_wrong_with_the_directories_of_these_tests(stopped: Path) -> None:
    async def run() -> None:
        await (await start_node(config(stopped))).stop()

    asyncio.run(run())
