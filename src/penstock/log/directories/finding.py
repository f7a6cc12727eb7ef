"""What a start finds in the log directories before any log is opened: names, interrupted moves, empty logs."""

import logging
from collections.abc import Sequence
from functools import partial

from penstock.log.checkpoint import TopicPartition, read_topic_id
from penstock.log.directories.errors import UnusableDirectoryError
from penstock.log.directories.log_roots import LogRoots
from penstock.log.disk import Disk
from penstock.log.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    PARTITION_METADATA,
    TIME_INDEX_SUFFIX,
    offset_prefix,
    parse_future_directory,
    parse_partition_directory,
    parse_put_away_directory,
    partition_directory,
    unique_id_of,
)
from penstock.protocol.internal_topics import CLUSTER_METADATA

logger = logging.getLogger(__name__)

_FIRST_LOG = offset_prefix(0) + LOG_SUFFIX
_FIRST_INDEXES = (offset_prefix(0) + INDEX_SUFFIX, offset_prefix(0) + TIME_INDEX_SUFFIX)
_FIRST_SEGMENT = {_FIRST_LOG, *_FIRST_INDEXES}


def directory_names(disk: Disk, roots: LogRoots) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for directory in roots.online:
        try:
            names[directory.path] = [] if directory.is_missing else sorted(disk.directories(directory.path))
        except OSError as error:
            directory.give_up(UnusableDirectoryError(directory.path, error))
    return names


def partitions_of(names: Sequence[str]) -> dict[str, TopicPartition]:
    """Partitions of one topic share its name's object. As in Kafka, only partition 0 of the metadata log counts."""
    topics: dict[str, str] = {}
    found = ((name, parse_partition_directory(name)) for name in names)
    return {
        name: (topics.setdefault(key[0], key[0]), key[1])
        for name, key in found
        if key is not None and (key[0] != CLUSTER_METADATA or key[1] == 0)
    }


def renamed_metadata(names: Sequence[str]) -> list[str]:
    """The metadata log's directory got these names where earlier versions took it for a topic's log. It may hold all
    that is left of the cluster's metadata.
    """
    found = ((name, parse_put_away_directory(name)) for name in names)
    return [name for name, key in found if key is not None and key[0] == CLUSTER_METADATA]


def finish_swaps(disk: Disk, roots: LogRoots, names: dict[str, list[str]]) -> None:
    """Give copies their final names whose originals were renamed away when the last process ended."""
    gone = {unique_id_of(name) for found in names.values() for name in found if name.endswith("-delete")}
    for path, found in names.items():
        for number, name in enumerate(found):
            key = parse_future_directory(name)
            if key is None or unique_id_of(name) not in gone:
                continue
            final = partition_directory(*key)
            if any(final in others for others in names.values()):
                continue
            try:
                disk.rename(f"{path}/{name}", f"{path}/{final}")
                disk.sync_directory(path)
            except OSError as error:
                roots[path].give_up(UnusableDirectoryError(path, error))
            else:
                found[number] = final


def empty_partitions(disk: Disk, path: str, names: Sequence[str], threads: int) -> set[str]:
    """A recovery would find no record in these directories. Their segments lack indexes, which a close writes: they are
    made, as Kafka misses them after the next close. One look at each tells; several threads look, as each waits for the
    disk at another place. Raises OSError.
    """
    found = disk.in_threads(partial(_is_empty, disk), [f"{path}/{name}" for name in names], threads)
    return {name for name, is_empty in zip(names, found, strict=True) if is_empty}


def empty_twin(disk: Disk, paths: Sequence[str]) -> str | None:
    """A twin is empty where its log directory failed while it was made, and it was made again elsewhere. None if each
    twin has records, or if they belong to different topics: the metadata know then which is right. Raises OSError.
    """
    if len({read_topic_id(disk, path) for path in paths} - {None}) > 1:
        return None
    for path in paths:
        if _is_empty(disk, path):
            logger.warning("%s is empty and also elsewhere: it is removed", path)
            return path
    return None


def _is_empty(disk: Disk, path: str) -> bool:
    """The log begins and ends with offset 0, closed cleanly or not."""
    names = disk.names(path)
    if names == [PARTITION_METADATA]:
        return True  # as most empty ones are: a log has no files before it has records
    names = [name for name in names if name.removesuffix(".tmp") != PARTITION_METADATA]
    sizes = disk.sizes(path)
    if not all(name in _FIRST_SEGMENT and not sizes.get(name) for name in names):
        return False
    for name in _FIRST_INDEXES:
        if _FIRST_LOG in names and name not in names:
            disk.open(f"{path}/{name}", create=True).close()
    return True
