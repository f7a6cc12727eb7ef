"""Give new log directories their identity before a node uses them: what `penstock storage` does."""

from collections.abc import Iterable, Iterator, Mapping
from random import Random
from uuid import UUID

from penstock.log.directories.errors import (
    ForeignDirectoryError,
    LogDirectoryError,
    UnformattedMetadataError,
    UnusableDirectoryError,
)
from penstock.log.directories.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from penstock.log.disk import Disk
from penstock.log.names import partition_directory
from penstock.protocol.internal_topics import CLUSTER_METADATA
from penstock.protocol.uuids import random_uuid


class AlreadyFormattedError(LogDirectoryError):
    def __init__(self, path: str) -> None:
        super().__init__(
            path,
            f"log directory {path} is already formatted: --ignore-formatted leaves it as it is and formats the others",
        )


def identities(disk: Disk, paths: Iterable[str]) -> dict[str, MetaProperties | None]:
    """None for a directory that is not formatted. Raises BadMetaPropertiesError."""
    return {path: read_meta_properties(disk, path) for path in dict.fromkeys(paths)}


def any_formatted(disk: Disk, paths: Iterable[str]) -> bool:
    """A directory that cannot be read does not count."""
    for path in paths:
        try:
            if read_meta_properties(disk, path) is not None:
                return True
        except (OSError, LogDirectoryError):
            continue
    return False


def format_directories(
    disk: Disk,
    paths: Iterable[str],
    *,
    cluster_id: str,
    node_id: int,
    random: Random,
    ignore_formatted: bool = False,
    directory_ids: Mapping[str, UUID] | None = None,
) -> Iterator[str]:
    """Gives each unformatted path before it is written. Nothing is written unless all directories may be formatted.
    Raises LogDirectoryError.
    """
    directory_ids = directory_ids or {}
    found = identities(disk, paths)
    for path, identity in found.items():
        if identity is not None:
            _check(path, identity, cluster_id, node_id)
    formatted = [path for path, identity in found.items() if identity is not None]
    if formatted and not ignore_formatted:
        raise AlreadyFormattedError(formatted[0])
    for path, identity in found.items():
        if identity is not None:
            continue
        yield path
        directory_id = directory_ids.get(path) or random_uuid(random)
        _write(disk, path, MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=directory_id))


def write_first_snapshot(disk: Disk, path: str, name: str, content: bytes) -> None:
    """Durable. A file of this name that an interrupted formatting left is replaced. Raises LogDirectoryError for other
    files.
    """
    directory = f"{path}/{partition_directory(CLUSTER_METADATA, 0)}"
    if any(not other.startswith(name) for other in disk.names(directory)):
        raise UnformattedMetadataError(path)
    try:
        disk.make_directory(directory, parents=True)
        disk.replace_file(f"{directory}/{name}", content, durable=True)
        disk.sync_directory(path)
    except OSError as error:
        raise UnusableDirectoryError(path, error) from error


def _check(path: str, identity: MetaProperties, cluster_id: str, node_id: int) -> None:
    if identity.cluster_id != cluster_id:
        raise ForeignDirectoryError(path, "cluster.id", identity.cluster_id, cluster_id)
    if identity.node_id != node_id:
        raise ForeignDirectoryError(path, "node.id", identity.node_id, node_id)


def _write(disk: Disk, path: str, identity: MetaProperties) -> None:
    try:
        disk.make_directory(path, parents=True)
        write_meta_properties(disk, path, identity)
    except OSError as error:
        raise UnusableDirectoryError(path, error) from error
