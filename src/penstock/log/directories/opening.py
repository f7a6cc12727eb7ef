"""What a start takes in from one log directory after the other: the logs of partitions, and copies on their way.

The metadata log's directory is looked at more closely than others: it lies in one place, has an id of its own, and what
an earlier version renamed, because a client had made a topic of that name, is neither removed nor forgotten.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from penstock.log.checkpoint import TopicPartition, read_topic_id
from penstock.log.config import LogConfig
from penstock.log.directories.errors import MisplacedMetadataError, NotMetadataLogError, RenamedMetadataError
from penstock.log.directories.finding import empty_partitions, empty_twin, partitions_of, renamed_metadata
from penstock.log.directories.log_directory import LogDirectory
from penstock.log.names import (
    DELETED_DIRECTORY_SUFFIX,
    PARTITION_METADATA,
    parse_future_directory,
    parse_put_away_directory,
    partition_directory,
)
from penstock.log.open_files import OpenFiles
from penstock.log.partition_log import PartitionLog
from penstock.log.removals import Removals
from penstock.protocol.internal_topics import CLUSTER_METADATA, CLUSTER_METADATA_ID

logger = logging.getLogger(__name__)

METADATA = (CLUSTER_METADATA, 0)
PartitionLogs = dict[TopicPartition, PartitionLog]


class Opening:
    """`logs` and `futures` as in `LogDirectories`, and `twins`."""

    def __init__(self, open_files: OpenFiles, removals: Removals, metadata_path: str) -> None:
        self._open_files = open_files
        self._disk = open_files.disk
        self._removals = removals
        self._metadata_path = metadata_path
        self.logs: PartitionLogs = {}
        self.futures: PartitionLogs = {}
        self.twins: list[PartitionLog] = []
        self.useless: list[PartitionLog] = []
        """Logs without a record, of partitions that have another log in `logs`."""

    def open(
        self,
        directory: LogDirectory,
        names: list[str],
        config_of: Callable[[str], LogConfig],
        *,
        threads: int,
        removes: bool,
    ) -> None:
        """`threads` look whether directories are empty. `removes`: deleted directories are removed; False where
        one may be the original of a copy that is offline. Raises OSError, KafkaError, LogDirectoryError.
        """
        renamed = renamed_metadata(names)
        kept = []
        for name in names:
            path = f"{directory.path}/{name}"
            if name in renamed:
                logger.warning("%s holds a metadata log that was renamed: remove it if it is not missed", path)
            elif name.endswith(DELETED_DIRECTORY_SUFFIX) and parse_put_away_directory(name) is not None:
                if removes:
                    self._removals.schedule(path, 0)
            elif (key := parse_future_directory(name)) is not None:
                self.futures[key] = future_log(
                    self._open_files, self._removals, directory, path, key, config_of(key[0]), directory.is_clean
                )
            else:
                kept.append(name)
        keys = partitions_of(kept)
        if directory.path == self._metadata_path:
            self._check_metadata(directory.path, has_one=METADATA in keys.values(), renamed=renamed)
        self._open_logs(directory, keys, config_of, threads)

    def _open_logs(
        self,
        directory: LogDirectory,
        keys: dict[str, TopicPartition],
        config_of: Callable[[str], LogConfig],
        threads: int,
    ) -> None:
        recovery_points = directory.recovery_points()
        start_offsets, cleaned_offsets = directory.log_start_offsets(), directory.cleaned_offsets()
        named = recovery_points.keys() | start_offsets.keys() | cleaned_offsets.keys()
        directory.gone(named.difference(keys.values()))
        empty: set[str] = set()
        if not directory.is_clean:
            empty = empty_partitions(self._disk, directory.path, list(keys), threads)
        configs: dict[str, LogConfig] = {}
        for name, key in keys.items():
            if key == METADATA and directory.path != self._metadata_path:
                raise MisplacedMetadataError(directory.path, self._metadata_path)
            if key[0] not in configs:
                configs[key[0]] = config_of(key[0])
            start_offset, recovery_point = start_offsets.get(key, 0), recovery_points.get(key, -1)
            is_empty = name in empty and start_offset == max(recovery_point, 0) == 0
            log = PartitionLog(
                self._open_files,
                self._removals,
                f"{directory.path}/{name}",
                *key,
                configs[key[0]],
                recovery_point=0 if is_empty else recovery_point,
                log_start_offset=start_offset,
                is_clean=directory.is_clean,
                is_empty=is_empty,
                health=directory.health,
            )
            log.cleaned_to = cleaned_offsets.get(key, 0)
            if self._takes_in(log) and not (directory.is_clean or is_empty):
                log.load()
                log.is_unclaimable = recovery_point <= 0 and self._lacks_id(log)

    def _lacks_id(self, log: PartitionLog) -> bool:
        """On the disk, whatever the page cache has after a sync that failed."""
        with suppress(FileNotFoundError):
            self._disk.open_for_reading(f"{log.directory}/{PARTITION_METADATA}").forget_cache()
        return read_topic_id(self._disk, log.directory) is None

    def _takes_in(self, log: PartitionLog) -> bool:
        """An empty log that is also elsewhere is removed."""
        key = (log.topic, log.partition)
        twin = self.logs.get(key)
        if twin is None:
            self.logs[key] = log
            return True
        empty = empty_twin(self._disk, (log.directory, twin.directory))
        if empty is None:
            self.twins.append(log)
        elif empty == log.directory:
            self.useless.append(log)
        else:
            self.useless.append(twin)
            self.logs[key] = log
        return empty != log.directory

    def _check_metadata(self, path: str, *, has_one: bool, renamed: Sequence[str]) -> None:
        put_back = [name for name in renamed if parse_put_away_directory(name) == METADATA]
        directory = f"{path}/{partition_directory(*METADATA)}"
        if not has_one and put_back:
            raise RenamedMetadataError(path, put_back)
        if has_one and read_topic_id(self._disk, directory) not in (CLUSTER_METADATA_ID, None):
            raise NotMetadataLogError(directory, put_back)


def future_log(
    open_files: OpenFiles,
    removals: Removals,
    directory: LogDirectory,
    path: str,
    key: TopicPartition,
    config: LogConfig,
    is_clean: bool,
) -> PartitionLog:
    """No checkpoint has its recovery point."""
    return PartitionLog(
        open_files, removals, path, *key, config, recovery_point=-1, is_clean=is_clean, health=directory.health
    )
