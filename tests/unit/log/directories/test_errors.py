"""Each reason why a log directory cannot be used names the directory, and says what to do."""

import errno
import os
from collections.abc import Callable

import pytest

from penstock.log.directories import errors
from penstock.log.directories.errors import LogDirectoryError
from penstock.log.directories.formatting import AlreadyFormattedError

PATH = "/data/one"
ALL: list[tuple[Callable[[], LogDirectoryError], str]] = [
    (lambda: errors.UnusableDirectoryError(PATH, OSError(errno.EIO, "Input/output error")), "Input/output error"),
    (lambda: errors.OfflineDirectoryError(PATH, f"{PATH} failed", "it is needed"), "it is needed"),
    (lambda: errors.LockedDirectoryError(PATH), "another process"),
    (lambda: errors.ForeignDirectoryError(PATH, "node.id", 3, 4), "node.id 3, this node has node.id 4"),
    (lambda: errors.CopiedDirectoryError(PATH, "/data/two", "an-id"), "/data/two and"),
    (lambda: errors.BadMetaPropertiesError(PATH, "lacks node.id"), "lacks node.id"),
    (lambda: errors.DamagedDirectoryError(PATH, "no batch"), "no batch"),
    (lambda: errors.MisplacedMetadataError(PATH, "/data/two"), "metadata.log.dir"),
    (lambda: errors.NotMetadataLogError(PATH, ["old-delete"]), "rename old-delete to __cluster_metadata-0"),
    (lambda: errors.NotMetadataLogError(PATH, []), "restore __cluster_metadata-0 from a backup"),
    (lambda: errors.RenamedMetadataError(PATH, ["older-delete", "old-delete"]), "rename old-delete to"),
    (lambda: errors.UnformattedMetadataError(PATH), "not formatted"),
    (lambda: AlreadyFormattedError(PATH), "--ignore-formatted"),
]


def test_all_are_in_the_table() -> None:
    assert {type(make()) for make, _ in ALL} == set(LogDirectoryError.__subclasses__())


@pytest.mark.parametrize(("make", "says"), ALL)
def test_it_names_the_directory_and_the_cause(make: Callable[[], LogDirectoryError], says: str) -> None:
    error = make()
    assert error.path == PATH
    assert PATH in str(error)
    assert says in str(error)


def test_each_error_of_the_system_has_its_own_cure() -> None:
    cures = {number: str(errors.UnusableDirectoryError(PATH, OSError(number, "x"))) for number in errors._CURES}
    assert len(set(cures.values())) == len(cures) - 1, "two mean that the user of the node may not"
    unknown = errors.UnusableDirectoryError(PATH, OSError(errno.EBUSY, os.strerror(errno.EBUSY)))
    assert str(unknown).endswith(errors._CURE)
    assert "odd" in str(errors.UnusableDirectoryError(PATH, OSError("odd")))
