"""Each reason why a log directory cannot be used names the directory, and says what to do."""

import errno
import os

import pytest

from penstock.log.directories import errors
from penstock.log.directories.errors import LogDirectoryError
from penstock.log.directories.formatting import AlreadyFormattedError

PATH = "/data/one"
ALL: list[tuple[LogDirectoryError, str]] = [
    (errors.UnusableDirectoryError(PATH, OSError(errno.EIO, "Input/output error")), "Input/output error"),
    (errors.OfflineDirectoryError(PATH, f"{PATH} failed", "it is needed"), "it is needed"),
    (errors.LockedDirectoryError(PATH), "another process"),
    (errors.ForeignDirectoryError(PATH, "node.id", 3, 4), "node.id 3, this node has node.id 4"),
    (errors.CopiedDirectoryError(PATH, "/data/two", "an-id"), "/data/two and"),
    (errors.BadMetaPropertiesError(PATH, "lacks node.id"), "lacks node.id"),
    (errors.DamagedDirectoryError(PATH, "no batch"), "no batch"),
    (errors.MisplacedMetadataError(PATH, "/data/two"), "metadata.log.dir"),
    (errors.NotMetadataLogError(PATH, ["old-delete"]), "rename old-delete to __cluster_metadata-0"),
    (errors.NotMetadataLogError(PATH, []), "restore __cluster_metadata-0 from a backup"),
    (errors.RenamedMetadataError(PATH, ["older-delete", "old-delete"]), "rename old-delete to"),
    (errors.UnformattedMetadataError(PATH), "not formatted"),
    (AlreadyFormattedError(PATH), "--ignore-formatted"),
]


def test_all_are_in_the_table() -> None:
    assert {type(error) for error, _ in ALL} == set(LogDirectoryError.__subclasses__())


@pytest.mark.parametrize(("error", "says"), ALL)
def test_it_names_the_directory_and_the_cause(error: LogDirectoryError, says: str) -> None:
    assert error.path == PATH
    assert PATH in str(error)
    assert says in str(error)


def test_each_error_of_the_system_has_its_own_cure() -> None:
    cures = {number: str(errors.UnusableDirectoryError(PATH, OSError(number, "x"))) for number in errors._CURES}
    assert len(set(cures.values())) == len(cures) - 1, "two mean that the user of the node may not"
    unknown = errors.UnusableDirectoryError(PATH, OSError(errno.EBUSY, os.strerror(errno.EBUSY)))
    assert str(unknown).endswith(errors._CURE)
    assert "odd" in str(errors.UnusableDirectoryError(PATH, OSError("odd")))
