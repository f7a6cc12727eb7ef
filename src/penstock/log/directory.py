"""All log directories of a node: opened together, and the place where partition logs are made, found and deleted.

`open_all` only looks at names after a clean shutdown; each log is read when it is first used. After a crash every
log is recovered before `open_all` returns. Nothing here waits for time: `remove_due` and `write_checkpoints` are
called by whoever keeps the clock.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from uuid import UUID

from penstock.log.checkpoint import TopicPartition, encode_partition_metadata
from penstock.log.config import LogConfig
from penstock.log.directory_errors import (
    DamagedDirectoryError,
    ForeignDirectoryError,
    MisplacedMetadataError,
    UnwritableDirectoryError,
)
from penstock.log.disk import Disk
from penstock.log.log_directory import UNKNOWN_EPOCH, LogDirectory
from penstock.log.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from penstock.log.names import (
    DELETED_DIRECTORY_SUFFIX,
    METADATA_TOPIC,
    PARTITION_METADATA,
    deleted_partition_directory,
    parse_partition_directory,
    partition_directory,
    stray_partition_directory,
)
from penstock.log.open_files import OpenFiles
from penstock.log.partition_log import PartitionLog
from penstock.log.removals import Removals
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.uuids import random_uuid, uuid_to_text

MAX_SINGLE_SYNCS = 100
"""A close with more logs to sync than this syncs the machine's disks as a whole: one call instead of thousands."""

PartitionLogs = dict[TopicPartition, PartitionLog]


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryDescription:
    """What DescribeLogDirs says of one directory; sizes are bytes. With a `failure` none of them is known."""

    path: str
    total_bytes: int
    usable_bytes: int
    sizes: dict[TopicPartition, int]
    failure: KafkaError | None = None


class LogDirectories:
    """The log directories of one node; all of them are locked while this object is open.

    `cluster_id` None takes the one that the directories hold or, when they are new, draws one. The metadata log lies in
    `metadata_path`, by default the first of `paths`; if that is none of them, it has nothing else. Raises
    LogDirectoryError.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        node_id: int,
        random: Random,
        metadata_path: str | None = None,
        cluster_id: str | None = None,
        disk: Disk | None = None,
        max_open_segments: int | None = None,
    ) -> None:
        self._disk = disk or Disk()
        self._random = random
        self._removals = Removals(self._disk)
        self._directories: list[LogDirectory] = []
        self.open_files = OpenFiles(self._disk, max_open_segments)
        self.logs: PartitionLogs = {}
        self.node_id = node_id
        data_paths = [path.rstrip("/") or "/" for path in paths]
        self.metadata_path = data_paths[0] if metadata_path is None else metadata_path.rstrip("/") or "/"
        self._data_paths = frozenset(data_paths)
        self._ids: dict[str, UUID] = {}
        try:
            for path in dict.fromkeys([*data_paths, self.metadata_path]):
                self._directories.append(LogDirectory(self._disk, path))
            self.cluster_id = self._identify(cluster_id)
        except BaseException:
            self.abandon()
            raise

    @property
    def paths(self) -> list[str]:
        """The directories' paths."""
        return [directory.path for directory in self._directories]

    @property
    def was_clean(self) -> bool:
        """Whether all directories were closed cleanly the last time."""
        return all(directory.is_clean for directory in self._directories)

    @property
    def clean_broker_epoch(self) -> int:
        """The epoch of the broker that closed all directories cleanly the last time; -1 if there was none."""
        epochs = {directory.clean_broker_epoch for directory in self._directories}
        return epochs.pop() if len(epochs) == 1 else UNKNOWN_EPOCH

    def _identify(self, cluster_id: str | None) -> str:
        """Compare or write `meta.properties`; returns the cluster's id."""
        new: list[LogDirectory] = []
        for directory in self._directories:
            found = read_meta_properties(self._disk, directory.path)
            if found is None:
                new.append(directory)
                continue
            if cluster_id is None:
                cluster_id = found.cluster_id
            if found.cluster_id != cluster_id:
                raise ForeignDirectoryError(directory.path, "cluster.id", found.cluster_id, cluster_id)
            if found.node_id != self.node_id:
                raise ForeignDirectoryError(directory.path, "node.id", found.node_id, self.node_id)
            if found.directory_id is None:  # from before KIP-858
                new.append(directory)
            else:
                self._know(directory, found.directory_id)
        if cluster_id is None:
            cluster_id = uuid_to_text(random_uuid(self._random))
        for directory in new:
            directory_id = random_uuid(self._random)
            properties = MetaProperties(cluster_id=cluster_id, node_id=self.node_id, directory_id=directory_id)
            try:
                write_meta_properties(self._disk, directory.path, properties)
            except OSError as error:
                raise UnwritableDirectoryError(directory.path, error) from error
            self._know(directory, directory_id)
        return cluster_id

    def _know(self, directory: LogDirectory, directory_id: UUID) -> None:
        if directory.path in self._data_paths:
            self._ids[directory.path] = directory_id

    @property
    def directory_ids(self) -> list[UUID]:
        """The ids of the directories for data (`directory.id`)."""
        return list(self._ids.values())

    def id_of(self, log: PartitionLog) -> UUID | None:
        """The id of the directory in which a partition's log lies; None where only the metadata log should lie."""
        return self._ids.get(log.parent)

    def open_all(self, config_of: Callable[[str], LogConfig]) -> PartitionLogs:
        """Find all partitions; `config_of(topic)` gives a topic's config. Raises LogDirectoryError."""
        for directory in self._directories:
            try:
                self._open_directory(directory, config_of)
                directory.forget_clean_shutdown()
            except OSError as error:
                raise UnwritableDirectoryError(directory.path, error) from error
            except KafkaError as error:
                raise DamagedDirectoryError(directory.path, str(error)) from error
        return self.logs

    def _open_directory(self, directory: LogDirectory, config_of: Callable[[str], LogConfig]) -> None:
        recovery_points = directory.recovery_points()
        start_offsets = directory.log_start_offsets()
        configs: dict[str, LogConfig] = {}
        topics: dict[str, str] = {}
        for name in sorted(self._disk.directories(directory.path)):
            path = f"{directory.path}/{name}"
            if name.endswith(DELETED_DIRECTORY_SUFFIX):
                self._removals.schedule(path, 0)
                continue
            key = parse_partition_directory(name)
            if key is None:
                continue
            if key == (METADATA_TOPIC, 0) and directory.path != self.metadata_path:
                raise MisplacedMetadataError(directory.path, self.metadata_path)
            if key in self.logs:
                raise DamagedDirectoryError(directory.path, f"{name} is also in {self.logs[key].directory}")
            topic = topics.setdefault(key[0], key[0])
            if topic not in configs:
                configs[topic] = config_of(topic)
            log = self.logs[topic, key[1]] = PartitionLog(
                self.open_files,
                self._removals,
                path,
                topic,
                key[1],
                configs[topic],
                recovery_point=recovery_points.get(key, -1),
                log_start_offset=start_offsets.get(key, 0),
                is_clean=directory.is_clean,
            )
            if not directory.is_clean:
                log.load()

    def create(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> PartitionLog:
        """The log of a partition of this topic: the one there is, or a new one in the directory that has the fewest.

        A log that is left of an earlier topic of the same name is deleted first. Raises
        KafkaError(KAFKA_STORAGE_ERROR).
        """
        key = (topic, partition)
        log = self.logs.get(key)
        if log is not None:
            found = log.topic_id
            if found == topic_id:
                return log
            if found is None:
                self._write_topic_id(log.directory, topic_id)
                return log
            self.delete(log, now_ms=0)
        parent = self.metadata_path if key == (METADATA_TOPIC, 0) else self._emptiest()
        path = f"{parent}/{partition_directory(topic, partition)}"
        self._write_topic_id(path, topic_id)
        log = PartitionLog(self.open_files, self._removals, path, topic, partition, config, is_clean=True)
        self.logs[key] = log
        return log

    def _write_topic_id(self, path: str, topic_id: UUID) -> None:
        try:
            self._disk.make_directory(path)
            metadata = encode_partition_metadata(topic_id)
            self._disk.replace_file(f"{path}/{PARTITION_METADATA}", metadata, durable=False)
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"cannot create {path}: {error}") from error

    def _emptiest(self) -> str:
        counts = dict.fromkeys((path for path in self.paths if path in self._data_paths), 0)
        if len(counts) > 1:
            for log in self.logs.values():
                if log.parent in counts:
                    counts[log.parent] += 1
        return min(counts, key=counts.__getitem__)

    def delete(self, log: PartitionLog, now_ms: int) -> None:
        """Rename the partition's directory at once, remove it after `file_delete_delay_ms`. Raises KafkaError."""
        self.logs.pop((log.topic, log.partition), None)
        name = deleted_partition_directory(log.topic, log.partition, random_uuid(self._random))
        path = f"{log.parent}/{name}"
        try:
            self._disk.rename(log.directory, path)
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"cannot delete {log.directory}: {error}") from error
        log.mark_deleted(path)
        self._removals.schedule(path, now_ms + log.config.file_delete_delay_ms)

    def set_aside(self, log: PartitionLog) -> str:
        """Rename the directory of a log that belongs to no partition; returns its path. Raises KafkaError.

        Nothing here removes it: whoever runs the node decides.
        """
        name = stray_partition_directory(log.topic, log.partition, random_uuid(self._random))
        path = f"{log.parent}/{name}"
        try:
            self._disk.rename(log.directory, path)
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"cannot rename {log.directory}: {error}") from error
        del self.logs[log.topic, log.partition]
        log.mark_deleted(path)
        return path

    def remove_due(self, now_ms: int, *, at_most: int = 1000) -> int:
        """Remove the files and directories whose delay is over; how many."""
        return self._removals.remove_due(now_ms, at_most=at_most)

    def next_removal_ms(self) -> int | None:
        """When `remove_due` has something to do next."""
        return self._removals.next_deadline_ms()

    def write_checkpoints(self) -> None:
        """Write recovery points and log start offsets, where they have changed. Raises
        KafkaError(KAFKA_STORAGE_ERROR).
        """
        for directory, logs in self._logs_by_directory():
            points = {(log.topic, log.partition): max(log.recovery_point, 0) for log in logs}
            starts = {
                (log.topic, log.partition): start for log in logs if (start := log.start_to_checkpoint) is not None
            }
            try:
                directory.write_recovery_points(points)
                directory.write_log_start_offsets(starts)
            except OSError as error:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory.path}: {error}") from error

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """What `write_high_watermarks` wrote last."""
        return {key: offset for directory in self._directories for key, offset in directory.high_watermarks().items()}

    def write_high_watermarks(self, offsets: dict[TopicPartition, int]) -> None:
        """Keep the high watermarks of partitions, each beside its log. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        for directory, logs in self._logs_by_directory():
            keys = [(log.topic, log.partition) for log in logs]
            try:
                directory.write_high_watermarks({key: offsets[key] for key in keys if key in offsets})
            except OSError as error:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory.path}: {error}") from error

    def _logs_by_directory(self) -> list[tuple[LogDirectory, list[PartitionLog]]]:
        found: dict[str, list[PartitionLog]] = {path: [] for path in self.paths}
        for log in self.logs.values():
            found[log.parent].append(log)
        return [(directory, found[directory.path]) for directory in self._directories]

    def describe(self) -> list[DirectoryDescription]:
        """Sizes of all partitions and of the file systems they lie in; a directory only for metadata is left out."""
        return [
            self._describe(directory.path, logs)
            for directory, logs in self._logs_by_directory()
            if directory.path in self._data_paths
        ]

    def _describe(self, path: str, logs: list[PartitionLog]) -> DirectoryDescription:
        try:
            total, usable = self._disk.space(path)
            sizes = {(log.topic, log.partition): log.size_bytes for log in logs}
        except OSError as error:
            failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path}: {error}")
        except KafkaError as error:
            failure = error
        else:
            return DirectoryDescription(path=path, total_bytes=total, usable_bytes=usable, sizes=sizes)
        return DirectoryDescription(path=path, total_bytes=-1, usable_bytes=-1, sizes={}, failure=failure)

    def close(self, *, broker_epoch: int = -1) -> None:
        """Close all logs, write the checkpoints, mark the directories as clean, release the locks.

        Raises KafkaError(KAFKA_STORAGE_ERROR); the directories are then recovered at the next start.
        """
        try:
            many = sum(log.is_dirty for log in self.logs.values()) > MAX_SINGLE_SYNCS
            for log in self.logs.values():
                log.close(durable=not many)
            if many:
                self._disk.sync_everything()
            self.write_checkpoints()
            for directory in self._directories:
                directory.close(broker_epoch=broker_epoch)
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of everything without saving anything, as a crash would."""
        for log in self.logs.values():
            log.abandon()
        self.logs = {}
        for directory in self._directories:
            directory.abandon()
        self._directories = []
