"""Which of the logs that were found at the start are replicas of this node; the others are set aside.

Which of several logs of a replica is right, where it lies in more than one log directory with records in each?

A replica whose directory was away may have been moved off this node and back meanwhile: then it was made anew in
another directory, and the old one comes back with the disk. The metadata tell the two apart: the right one is of the
topic that they know, and lies in the directory in which they say that the replica lies (KIP-858). The others are set
aside. Nothing is removed, and where the metadata leave it open this node does not start, unless nothing is lost with
either of them.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final
from uuid import UUID

from penstock.log.directories.directory import LogDirectories
from penstock.log.directories.errors import DamagedDirectoryError
from penstock.log.partition_log import PartitionLog
from penstock.metadata.image import ClusterImage, PartitionImage
from penstock.metadata.topics import is_reserved
from penstock.protocol.errors import KafkaError
from penstock.protocol.internal_topics import has_replicas

LOOKED_AT_ONCE: Final = 1_000
"""Logs that are looked at before the event loop gets to do something else."""

logger = logging.getLogger(__name__)


def settle_twins(directories: LogDirectories, image: ClusterImage, node_id: int) -> None:
    """Leave the right log of each replica in `directories.logs`. Raises DamagedDirectoryError, KafkaError."""
    found: dict[tuple[str, int], list[PartitionLog]] = {}
    for twin in directories.twins:
        key = (twin.topic, twin.partition)
        found.setdefault(key, [directories.logs[key]]).append(twin)
    for key, logs in found.items():
        directories.logs[key] = right = _right_one(directories, image, node_id, logs)
        for log in logs:
            if log is not right:
                _set_aside(directories, log, f"{right.directory} is in its place")
    directories.twins.clear()


def _right_one(
    directories: LogDirectories, image: ClusterImage, node_id: int, logs: list[PartitionLog]
) -> PartitionLog:
    """One of `logs`, whichever where this node has no such replica: then that one is set aside as well."""
    topic = image.topics.get(logs[0].topic)
    partition = None if topic is None else topic.partitions.get(logs[0].partition)
    if topic is None or partition is None or node_id not in partition.replicas:
        return logs[0]
    of_topic = [log for log in logs if directories.topic_id_of(log) in (topic.topic_id, None)] or logs[:1]
    if len(of_topic) == 1:
        return of_topic[0]
    said = partition.directory_of(node_id)
    for log in of_topic:
        if directories.id_of(log) == said:
            return log
    if _counts(partition, node_id):
        problem = f"{logs[0].topic}-{logs[0].partition} is also in {of_topic[0].directory}"
        raise DamagedDirectoryError(of_topic[1].parent, f"{problem}, and the metadata name neither")
    return of_topic[0]


def _counts(partition: PartitionImage, node_id: int) -> bool:
    """Whether the cluster relies on what this replica has."""
    return node_id in (*partition.isr, *partition.eligible_leader_replicas, *partition.last_known_elr)


async def set_aside_strays(
    directories: LogDirectories, image: ClusterImage, node_id: int, is_member: Callable[[PartitionLog], bool]
) -> None:
    """Strays must not be taken for logs of a topic to come. `is_member`: the log belongs to a storage group here."""
    for number, (key, log) in enumerate(list(directories.logs.items()), 1):
        is_there = directories.logs.get(key) is log  # its topic may have been removed meanwhile
        if is_there and log.health.failure is None and not (_is_ours(image, node_id, log) or is_member(log)):
            _set_aside(directories, log, "no such partition in the metadata")
        if not number % LOOKED_AT_ONCE:
            await asyncio.sleep(0)


def _is_ours(image: ClusterImage, node_id: int, log: PartitionLog) -> bool:
    known = image.topics.get(log.topic)
    if not has_replicas(log.topic):
        return True
    if known is not None and known.storage_group is not None:  # a group that comes here is ahead of its partitions
        return node_id in image.storage_groups[known.storage_group].replicas
    partition = None if known is None else known.partitions.get(log.partition)
    return partition is not None and node_id in partition.replicas


def _set_aside(directories: LogDirectories, log: PartitionLog, why: str) -> None:
    directory = log.directory
    try:
        path = directories.set_aside(log)
    except KafkaError as error:
        logger.error("%s", error.message)
    else:
        logger.warning("%s: %s: now %s, remove it if it is not missed", directory, why, path)


def lies_elsewhere(directories: LogDirectories, node_id: int, log: PartitionLog, image: PartitionImage) -> UUID | None:
    """The directory in which a log lies, if the image should know of it and expects another one."""
    said, actual = image.directory_of(node_id), directories.id_of(log)
    if said == actual or (is_reserved(said) and len(directories.roots.for_data) == 1):
        return None
    return actual
