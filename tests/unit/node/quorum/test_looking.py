"""What a node makes of its metadata before it starts: from a snapshot, the log behind it, or what it was given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.node.gated_log import GatedLog
from tests.unit.node.quorum.test_metadata_log import batch, election, snapshot, topic

from penstock.log.disk import Disk
from penstock.metadata.features import METADATA_VERSION, SUPPORTED_FEATURES
from penstock.metadata.record_frames import UnsupportedMetadataError
from penstock.metadata.records import ConfigRecord, FeatureLevelRecord, MetadataRecord
from penstock.metadata.security_records import UserScramCredentialRecord
from penstock.metadata.snapshot import snapshot_name
from penstock.node.quorum import looking
from penstock.node.quorum.looking import KAFKAS_BOOTSTRAP, Seen, look
from penstock.protocol.errors import DecodeError


def config(value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=4, resource_name="1", name="k", value=value)


def feature(level: int, name: str = METADATA_VERSION) -> FeatureLevelRecord:
    return FeatureLevelRecord(name=name, feature_level=level)


class Directory:
    """That of the metadata log, within a log directory."""

    def __init__(self, path: Path) -> None:
        self.path = path / "__cluster_metadata-0"
        self.log = GatedLog(self.path).partition_log
        self.given = path / KAFKAS_BOOTSTRAP

    def append(self, *batches: bytes) -> None:
        for one in batches:
            self.log.append_as_follower(memoryview(bytearray(one)))

    def write(self, end_offset: int, epoch: int, *records: MetadataRecord) -> None:
        (self.path / snapshot_name(end_offset, epoch)).write_bytes(snapshot(*records))

    async def look(self, *, with_log: bool = True) -> Seen:
        return await look(Disk(), str(self.path), self.log if with_log else None)

    async def configs(self, *, with_log: bool = True) -> list[str]:
        image = (await self.look(with_log=with_log)).image
        return [value for of in image.configs.values() for value in of.values()]


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory(tmp_path)


async def test_the_latest_word_counts(directory: Directory) -> None:
    assert await directory.configs() == []
    directory.append(election(0), batch(1, config("a"), config("b")), batch(3, topic("t")), batch(4, config("c")))
    assert await directory.configs() == ["c"]
    assert await directory.configs(with_log=False) == []
    directory.write(4, 2, config("old"))
    directory.write(4, 3, config("s"))
    directory.write(3, 9, config("older"))
    assert await directory.configs(with_log=False) == ["s"], "of the newest snapshot"
    assert await directory.configs() == ["c"]
    directory.write(5, 3, config("all"))
    assert await directory.configs() == ["all"], "what is in the snapshot is not read again"


async def test_a_long_log_is_read_in_slices(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    directory.append(*(batch(offset, config(f"{offset}")) for offset in range(20)))
    for size in (1, 100, 200, 1_000):
        monkeypatch.setattr(looking, "SLICE_BYTES", size)
        assert await directory.configs() == ["19"]


def user() -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name="ada", mechanism=1, salt=b"salt", stored_key=b"s" * 32, server_key=b"k" * 32, iterations=4096
    )


WRITTEN: list[tuple[str, Callable[[Directory], None], bool]] = [
    ("nothing", lambda it: None, True),
    ("the first snapshot", lambda it: it.write(0, 0, config("a")), True),
    ("a snapshot", lambda it: it.write(1, 1, config("a")), False),
    ("a record", lambda it: it.append(batch(0, config("a"))), False),
    ("an election", lambda it: it.append(election(0)), False),
]


@pytest.mark.parametrize(("write", "counts"), [row[1:] for row in WRITTEN], ids=[row[0] for row in WRITTEN])
@pytest.mark.parametrize("with_log", [False, True])
async def test_what_it_was_given_counts_until_something_is_written(
    directory: Directory, write: Callable[[Directory], None], counts: bool, with_log: bool
) -> None:
    records = [feature(20), user()]
    directory.given.write_bytes(snapshot(*records))
    write(directory)
    seen = await directory.look(with_log=with_log)
    counts = counts or (not with_log and directory.log.log_end_offset > 0)
    assert list(seen.bootstrap) == (records if counts else [])
    assert ("ada" in str(list(seen.image.records()))) is counts
    assert seen.image.features == {}, "features are a wish"


async def test_a_damaged_file_is_named(directory: Directory) -> None:
    directory.given.write_bytes(snapshot(config("a"))[:-3])
    with pytest.raises(DecodeError, match=f"{KAFKAS_BOOTSTRAP}: "):
        await directory.look()
    name = snapshot_name(4, 3)
    (directory.path / name).write_bytes(snapshot(config("a"))[:-3])
    with pytest.raises(DecodeError, match=f"^__cluster_metadata-0/{name}: "):
        await directory.look()


@pytest.mark.parametrize("in_snapshot", [False, True])
async def test_a_level_that_is_unknown_here_is_refused(directory: Directory, in_snapshot: bool) -> None:
    newest = SUPPORTED_FEATURES["group.version"].newest
    lowest = SUPPORTED_FEATURES["group.version"].lowest
    for number, level in enumerate((newest, lowest, newest + 1)):
        if in_snapshot:
            directory.write(number + 1, 1, feature(20), feature(level, "group.version"))
        else:
            directory.append(batch(2 * number, feature(20), feature(level, "group.version")))
        if level <= newest:
            assert (await directory.look()).image.features.get("group.version", 0) == level
        else:
            said = f"level {level} of group.version, known are {lowest} to {newest}"
            with pytest.raises(UnsupportedMetadataError, match=said):
                await directory.look()
