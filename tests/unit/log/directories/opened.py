"""Log directories of a test."""

from pathlib import Path
from random import Random
from uuid import UUID

from penstock.log.checkpoint import TopicPartition
from penstock.log.config import LogConfig
from penstock.log.directories.directory import LogDirectories

TOPIC_ID = UUID(int=77)


CONFIG = LogConfig(log_delete_delay_ms=1000)


def open_directories(
    *paths: Path, node_id: int = 1, cluster_id: str | None = None, metadata: Path | None = None
) -> LogDirectories:
    directories = LogDirectories(
        [str(path) for path in paths],
        node_id=node_id,
        random=Random(1),
        cluster_id=cluster_id,
        metadata_path=None if metadata is None else str(metadata),
    )
    directories.open_all(lambda topic: CONFIG)
    directories.begin()
    return directories


def write_checkpoints(directories: LogDirectories) -> None:
    """Of all directories that are online."""
    for one in directories.roots.online:
        directories.checkpoints.write(directories.logs, one)


def write_cleaned_offsets(directories: LogDirectories) -> None:
    for one in directories.roots.online:
        directories.checkpoints.write_cleaned_offsets(directories.logs, one)


def write_high_watermarks(directories: LogDirectories, offsets: dict[TopicPartition, int]) -> None:
    for one in directories.roots.online:
        directories.checkpoints.write_high_watermarks(directories.logs, offsets, one)
