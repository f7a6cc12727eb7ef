"""All log directories of a node: opened together, and the place where partition logs are made, found and deleted.

`open_all` only looks at names after a clean shutdown; each log is read when it is first used. After a crash every
log that is not empty is recovered before `open_all` returns. What was closed cleanly is so until `begin`. Nothing here
waits for time: `take_removals` and `checkpoints` are called by the node, which keeps the clock.

The logs of a directory that is offline stay known, so that none of them is made anew elsewhere, and raise
KAFKA_STORAGE_ERROR.

A log is its topic's by the topic's id, which lies in its directory, and never by its name alone: `create` and `claim`
give it only to that topic, and what no topic has claimed is not deleted. The metadata log is the quorum's: its
directory is never renamed or deleted, whatever the metadata say.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from random import Random
from uuid import UUID

from penstock.log.checkpoint import TopicPartition, encode_partition_metadata, read_topic_id
from penstock.log.config import INT64_MAX, LogConfig
from penstock.log.directories.checkpoints import Checkpoints
from penstock.log.directories.description import DirectoryDescription, describe
from penstock.log.directories.errors import DamagedDirectoryError, UnusableDirectoryError
from penstock.log.directories.finding import directory_names, finish_swaps
from penstock.log.directories.log_directory import LogDirectory
from penstock.log.directories.log_roots import LogRoots
from penstock.log.directories.opening import METADATA, Opening, PartitionLogs, future_log
from penstock.log.disk import Disk
from penstock.log.health import Health
from penstock.log.names import (
    DELETED_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    PARTITION_METADATA,
    STRAY_DIRECTORY_SUFFIX,
    parse_future_directory,
    partition_directory,
    renamed_partition_directory,
    unique_id_of,
)
from penstock.log.open_files import OpenFiles
from penstock.log.partition_log import PartitionLog
from penstock.log.removals import Removals
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import CLUSTER_METADATA, CLUSTER_METADATA_ID, has_replicas
from penstock.protocol.uuids import random_uuid, uuid_to_text

logger = logging.getLogger(__name__)

MAX_SINGLE_SYNCS = 100
"""Above this a close syncs the file system as a whole: one call instead of thousands."""


class LogDirectories:
    """They are locked while this object is open. The metadata log lies in `roots.metadata_path`. Raises
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
        recovery_threads: int = 1,
    ) -> None:
        self._disk = disk or Disk()
        self._random = random
        self._recovery_threads = recovery_threads
        self._removals = Removals(self._disk)
        self.open_files = OpenFiles(self._disk, max_open_segments)
        self.logs: PartitionLogs = {}
        self.futures: PartitionLogs = {}
        """Copies of logs that are on their way to another directory (KIP-113)."""
        self.twins: list[PartitionLog] = []
        """Logs of partitions that have another one in `logs`, with records in both: the metadata say which is right."""
        self.preferred: dict[TopicPartition, str] = {}
        self.roots = LogRoots(
            self._disk, paths, node_id=node_id, random=random, metadata_path=metadata_path, cluster_id=cluster_id
        )
        self.checkpoints = Checkpoints(self.roots)

    @property
    def cluster_id(self) -> str:
        return self.roots.cluster_id

    def id_of(self, log: PartitionLog) -> UUID | None:
        """None where only the metadata log should lie."""
        return self.roots.id_of(log.parent)

    def threads_of(self, log: PartitionLog) -> Executor:
        """Those of its disk."""
        return self.roots[log.parent].threads

    def open_all(self, config_of: Callable[[str], LogConfig]) -> PartitionLogs:
        """Directories that were closed cleanly stay so until `begin`. Raises LogDirectoryError."""
        names = directory_names(self._disk, self.roots)
        finish_swaps(self._disk, self.roots, names)
        opening = Opening(self.open_files, self._removals, self.roots.metadata_path)
        self.logs, self.futures, self.twins = opening.logs, opening.futures, opening.twins
        self._useless = opening.useless
        removes = not self.roots.offline
        for directory in self.roots.online:
            try:
                opening.open(
                    directory, names[directory.path], config_of, threads=self._recovery_threads, removes=removes
                )
            except OSError as error:
                directory.give_up(UnusableDirectoryError(directory.path, error))
            except KafkaError as error:
                if not isinstance(error.__cause__, OSError):
                    raise DamagedDirectoryError(directory.path, str(error)) from error
                directory.give_up(UnusableDirectoryError(directory.path, error.__cause__))
        self.roots.check()
        return self.logs

    def begin(self) -> None:
        """From here on logs are written, and a crash needs a recovery. Raises LogDirectoryError, KafkaError."""
        self.roots.make()
        for directory in self.roots.online:
            try:
                directory.forget_clean_shutdown()
            except OSError as error:
                directory.give_up(UnusableDirectoryError(directory.path, error))
        self.roots.check()
        for log in self._useless:
            self._remove_later(log, 0)

    def create(
        self,
        topic: str,
        partition: int,
        topic_id: UUID,
        config: LogConfig,
        *,
        assigned: UUID | None = None,
        is_new: bool = True,
    ) -> PartitionLog:
        """The log that exists, or a new one in the directory that has the fewest. `assigned` is the directory that the
        metadata name. A replica that is not new and may lie in an offline directory is not made anew elsewhere. A log
        of an earlier topic of the same name is set aside first. Raises KafkaError: KAFKA_STORAGE_ERROR, and
        INCONSISTENT_TOPIC_ID where the log is another topic's and cannot be set aside.
        """
        if topic == CLUSTER_METADATA and topic_id != CLUSTER_METADATA_ID:
            raise self._is_not_its(f"{topic}-{partition}", topic_id)
        key = (topic, partition)
        log = self.logs.get(key)
        if log is not None and not (is_new and log.health.failure is not None):
            log.health.check()
            log.check_not_lent()  # it may be on its way out
            if self.claim(log, topic_id):
                return log
            self._make_way(log, topic_id)
        while True:
            parent = self._parent_for(key, assigned, is_new)
            path = f"{parent.path}/{partition_directory(topic, partition)}"
            try:
                with parent.health.raising(f"writing checkpoints in {parent.path}"):
                    parent.make_way(key)
                is_there = self._take(parent.health, path, topic_id)
                break
            except KafkaError:
                if parent.is_online:
                    raise
        log = self.logs[key] = PartitionLog(
            self.open_files, self._removals, path, topic, partition, config, is_clean=not is_there, health=parent.health
        )
        log.owner = topic_id
        return log

    def _take(self, health: Health, path: str, topic_id: UUID) -> bool:
        """Make the directory of an unknown log, for this topic; True if one was there that may be the topic's."""
        with health.raising(f"reading {path}"):
            is_there = self._disk.is_directory(path)
            found = read_topic_id(self._disk, path) if is_there else None
        if found not in (None, topic_id):
            raise self._is_not_its(path, topic_id)
        self._write_topic_id(health, path, topic_id)
        return is_there

    def claim(self, log: PartitionLog, topic_id: UUID) -> bool:
        """By the id in the log's directory; a log without one becomes the topic's, unless it may be another topic's.
        Raises KafkaError(KAFKA_STORAGE_ERROR).
        """
        if log.owner is not None:
            return log.owner == topic_id
        found = self.topic_id_of(log)
        if found is None and log.is_unclaimable and has_replicas(log.topic):
            return False
        if found is None:
            self._write_topic_id(log.health, log.directory, topic_id)
        elif found != topic_id:
            return False
        log.owner = topic_id
        return True

    def _make_way(self, log: PartitionLog, topic_id: UUID) -> None:
        """The log has another topic's id, or none that a crash has left."""
        directory = log.directory
        if not has_replicas(log.topic):
            raise self._is_not_its(f"{directory} (move it away if it is not missed)", topic_id)
        path = self.set_aside(log)
        logger.warning("%s may be of an earlier topic: now %s, remove it if it is not missed", directory, path)

    @staticmethod
    def _is_not_its(what: str, topic_id: UUID) -> KafkaError:
        message = f"{what} does not belong to the topic of the id {uuid_to_text(topic_id)}: it is left as it is"
        return KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, message)

    def topic_id_of(self, log: PartitionLog) -> UUID | None:
        """None if it is not known. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        with log.health.raising(f"reading {log.directory}"):
            return log.topic_id

    def _write_topic_id(self, health: Health, path: str, topic_id: UUID) -> None:
        with health.raising(f"making {path}"):
            self._disk.make_directory(path)
            metadata = encode_partition_metadata(topic_id)
            self._disk.replace_file(f"{path}/{PARTITION_METADATA}", metadata, durable=False)

    def _parent_for(self, key: TopicPartition, assigned: UUID | None, is_new: bool) -> LogDirectory:
        """The assigned directory, or else the one that has the fewest logs of those that want new ones, if any does."""
        if key == METADATA:
            metadata = self.roots[self.roots.metadata_path]
            metadata.health.check()
            return metadata
        online = [directory for directory in self.roots.for_data if directory.is_online]
        preferred = self.preferred.pop(key, None)
        for directory in online:
            if is_new and directory.path == preferred:
                return directory
        for directory in online:
            if directory.directory_id == assigned:
                return directory
        if not online or (self.roots.offline and not is_new):
            paths = ", ".join(directory.path for directory in self.roots.offline)
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{key[0]}-{key[1]} may lie in a log directory that is offline ({paths})"
            )
        online = [directory for directory in online if not self.roots.is_cordoned(directory.path)] or online
        if len(online) == 1:
            return online[0]
        counts = Counter(log.parent for log in self.logs.values())
        return min(online, key=lambda directory: counts[directory.path])

    def delete(self, log: PartitionLog, now_ms: int) -> None:
        """Rename the directory at once, remove it after `log_delete_delay_ms`. Raises KafkaError, also for a log that
        no topic has claimed by its id. A log that cannot be renamed is still known.
        """
        _check_may_go(log)
        if log.owner is None:
            message = f"{log.directory} is not deleted: no topic has claimed it by its id"
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, message)
        log.health.check()
        log.abandon()  # first: a thread that flushes it must not take its files for lost
        self._remove_later(log, now_ms)
        self._forget(log)

    def _forget(self, log: PartitionLog) -> None:
        if self.logs.get((log.topic, log.partition)) is log:
            del self.logs[log.topic, log.partition]
            self.roots[log.parent].gone([(log.topic, log.partition)])

    def _remove_later(self, log: PartitionLog, now_ms: int) -> None:
        path = self._put_away(log, DELETED_DIRECTORY_SUFFIX)
        self._removals.schedule(path, now_ms + log.config.log_delete_delay_ms)

    def _put_away(self, log: PartitionLog, suffix: str) -> str:
        log.check_not_lent()
        name = renamed_partition_directory(suffix, log.topic, log.partition, random_uuid(self._random))
        path = f"{log.parent}/{name}"
        with log.health.raising(f"renaming {log.directory}"):
            self._disk.rename(log.directory, path)
        self._removals.renamed(log.directory)
        log.mark_deleted(path)
        return path

    # moving logs from one directory to another

    def create_future(self, log: PartitionLog, path: str, begin: int, topic_id: UUID) -> PartitionLog:
        """An empty log in the log directory `path` that is to become a copy of `log`, which begins with this offset.
        A thread of that directory may do it: of the original nothing is read. Raises KafkaError.
        """
        key, directory = (log.topic, log.partition), self.roots[path]
        name = renamed_partition_directory(FUTURE_DIRECTORY_SUFFIX, *key, random_uuid(self._random))
        if parse_future_directory(name) != key:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{log.topic}: too long a name for a copy of its logs")
        self._write_topic_id(directory.health, f"{path}/{name}", topic_id)
        config = log.config.replace(flush_messages=INT64_MAX)  # it is flushed before any broker relies on it
        future = future_log(self.open_files, self._removals, directory, f"{path}/{name}", key, config, is_clean=True)
        future.truncate_fully_and_start_at(begin, durable=True)  # there may be nothing to flush
        self.futures[key] = future
        return future

    def drop_future(self, key: TopicPartition, now_ms: int) -> None:
        """The copy may lie in a directory that failed. Raises KafkaError."""
        future = self.futures.pop(key)
        if future.health.failure is not None:
            future.abandon()
        else:
            self._remove_later(future, now_ms)

    def set_future_aside(self, key: TopicPartition) -> str:
        """Rename the directory of a copy without an original; returns its path. Raises KafkaError."""
        path = self._put_away(self.futures[key], STRAY_DIRECTORY_SUFFIX)
        del self.futures[key]
        return path

    def swap(self, log: PartitionLog) -> str:
        """The copy, which must be closed, gets the place of the log; a thread may do it while the log is lent. Returns
        where the original is now, for `swapped`. Raises KafkaError.

        The original goes first: a copy without its original, whose names have the same unique id, is whole, and the
        next start finishes what a crash interrupted. When either cannot be renamed, durably, both get their names back.
        """
        key = (log.topic, log.partition)
        future = self.futures[key]
        directory, unique_id = log.directory, unique_id_of(future.directory)
        assert unique_id is not None
        gone = f"{log.parent}/{renamed_partition_directory(DELETED_DIRECTORY_SUFFIX, *key, unique_id)}"
        final = f"{future.parent}/{partition_directory(*key)}"
        with future.health.raising(f"writing checkpoints in {future.parent}"):
            self.roots[future.parent].make_way(key)
        renamed: list[tuple[Health, str, str]] = []
        for health, source, target in ((log.health, directory, gone), (future.health, future.directory, final)):
            try:
                self._disk.rename(source, target)
                renamed.append((health, source, target))
                self._disk.sync_directory(health.path)
            except OSError as error:
                failure = health.report(error, f"renaming {source}")
                self._name_back(renamed)
                raise failure from error
        self._removals.renamed(directory)
        self.roots[log.parent].gone([key])
        return gone

    def _name_back(self, renamed: list[tuple[Health, str, str]]) -> None:
        """The last one first. Where that fails nobody knows any more what lies where."""
        for health, source, target in reversed(renamed):
            try:
                self._disk.rename(target, source)
            except OSError as error:
                health.give_up(error, f"renaming {target}")

    def swapped(self, log: PartitionLog, gone: str, now_ms: int) -> None:
        """From now on the log is what was its copy."""
        key = (log.topic, log.partition)
        future = self.futures.pop(key)
        log.take_over(future, f"{future.parent}/{partition_directory(*key)}")
        self._removals.schedule(gone, now_ms + log.config.log_delete_delay_ms)

    def set_aside(self, log: PartitionLog) -> str:
        """Rename the directory of a log without a partition; returns its path. It is never removed here. Raises
        KafkaError.
        """
        _check_may_go(log)
        log.health.check()
        path = self._put_away(log, STRAY_DIRECTORY_SUFFIX)
        self._forget(log)
        return path

    def on_sooner_removal(self, call: Callable[[], object]) -> None:
        """As `Removals.on_sooner`."""
        self._removals.on_sooner = call

    def take_removals(self, now_ms: int, at_most: int) -> dict[str, list[str]]:
        """As `Removals.take_due`, by the log directories in which the paths lie."""
        taken: dict[str, list[str]] = {}
        for path in self._removals.take_due(now_ms, at_most):
            taken.setdefault(self.roots.around(path), []).append(path)
        return taken

    def remove(self, paths: Iterable[str], at_most: int, is_enough: Callable[[], bool] = bool) -> int:
        """As `Removals.remove`."""
        return self._removals.remove(paths, at_most, is_enough)

    def next_removal_ms(self) -> int | None:
        return self._removals.next_deadline_ms()

    def describe(self) -> list[DirectoryDescription]:
        """A directory only for metadata is left out."""
        roots = self.roots
        return [describe(self._disk, one).replace(is_cordoned=roots.is_cordoned(one.path)) for one in roots.for_data]

    def discard(self, log: PartitionLog, suffix: str) -> None:
        """The log's files with this suffix are not needed any more. Raises KafkaError."""
        with log.health.raising(f"tidying {log.directory}"):
            for name in self._disk.names(log.directory):
                if name.endswith(suffix):
                    self._removals.retire(f"{log.directory}/{name}", 0)

    def close(self, *, broker_epoch: int = -1) -> None:
        """Checkpoints are written, directories marked as clean, locks released. KafkaError(KAFKA_STORAGE_ERROR) when
        that fails in a directory, after the others are closed; the next start recovers it, as it does those that were
        offline before.
        """
        problem: KafkaError | None = None
        try:
            for directory, logs in self.checkpoints.logs_by_directory(self.logs):
                try:
                    self._close_logs(directory, logs)
                    directory.close(broker_epoch=broker_epoch)
                except KafkaError as error:
                    problem = error
                except OSError as error:
                    problem = directory.health.report(error, f"closing {directory.path}")
        finally:
            self.abandon()
        if problem is not None:
            raise problem

    def _close_logs(self, directory: LogDirectory, logs: list[PartitionLog]) -> None:
        many = sum(log.is_dirty for log in logs) > MAX_SINGLE_SYNCS
        others = [log for log in (*self.futures.values(), *self.twins) if log.parent == directory.path]
        for log in (*logs, *others):
            log.close(durable=not many)
        if many:
            directory.sync_all()
        self.checkpoints.write_of(directory, logs)

    def give_back(self) -> None:
        """After a refused start: leave the directories as clean as they were, and release the locks."""
        for directory, logs in self.checkpoints.logs_by_directory(self.logs):
            if directory.is_clean and not directory.is_marked and all(log.is_trusted for log in logs):
                try:
                    self._close_logs(directory, logs)
                    directory.close_as_found()
                except (KafkaError, OSError) as error:
                    logger.warning("%s will be recovered at the next start: %s", directory.path, error)
        self.abandon()

    def abandon(self) -> None:
        """Save nothing, as a crash would."""
        for log in (*self.logs.values(), *self.futures.values(), *self.twins):
            log.abandon()
        self.logs, self.futures, self.twins = {}, {}, []
        self.roots.abandon()


def _check_may_go(log: PartitionLog) -> None:
    if log.topic == CLUSTER_METADATA:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{log.directory} stays: it is the metadata log")
