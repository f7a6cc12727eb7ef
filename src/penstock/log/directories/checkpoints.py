"""The checkpoints of all log directories: recovery points, log start offsets, compacted offsets, high watermarks."""

import logging
from collections.abc import Callable

from penstock.log.checkpoint import TopicPartition
from penstock.log.directories.log_directory import LogDirectory
from penstock.log.directories.log_roots import LogRoots
from penstock.log.directories.opening import PartitionLogs
from penstock.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)


class Checkpoints:
    """Each is a file beside its logs, written when it changes. Writing raises KafkaError(KAFKA_STORAGE_ERROR).

    It waits for the disk, so threads of each directory do it while logs come and go: what is written is gathered under
    the lock of its directory, which a log takes whose name was another's.
    """

    def __init__(self, roots: LogRoots) -> None:
        self._roots = roots

    def logs_by_directory(self, logs: PartitionLogs) -> list[tuple[LogDirectory, list[PartitionLog]]]:
        found: dict[str, list[PartitionLog]] = {path: [] for path in self._roots.paths}
        for log in logs.values():
            found[log.parent].append(log)
        return [(directory, found[directory.path]) for directory in self._roots.online]

    def write(self, logs: PartitionLogs, directory: LogDirectory) -> None:
        """Recovery points, log start offsets and compacted offsets."""
        with directory.checkpointing:
            self.write_of(directory, _in(directory, logs))

    def write_of(self, directory: LogDirectory, logs: list[PartitionLog]) -> None:
        points = {(log.topic, log.partition): max(log.recovery_point, 0) for log in logs}
        starts = {(log.topic, log.partition): start for log in logs if (start := log.start_to_checkpoint) is not None}
        _write(directory, directory.write_recovery_points, points)
        _write_cleaned_offsets(directory, logs)
        _write(directory, directory.write_log_start_offsets, starts)
        with directory.health.raising(f"writing checkpoints in {directory.path}"):
            directory.forget_gone()

    def write_cleaned_offsets(self, logs: PartitionLogs, directory: LogDirectory) -> None:
        with directory.checkpointing:
            _write_cleaned_offsets(directory, _in(directory, logs))

    def write_high_watermarks(
        self, logs: PartitionLogs, offsets: dict[TopicPartition, int], directory: LogDirectory
    ) -> None:
        """Few logs of many may have one: the others are not looked at."""
        with directory.checkpointing:
            found = ((key, offset, logs.get(key)) for key, offset in list(offsets.items()))
            its = {key: it for key, it, log in found if log is not None and log.parent == directory.path}
            _write(directory, directory.write_high_watermarks, its)

    def high_watermarks(self, logs: PartitionLogs) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for directory, its in self.logs_by_directory(logs):
            try:
                written = directory.high_watermarks()
            except OSError as error:  # it has failed since it was opened; the others go on
                logger.error("%s", directory.health.report(error, f"reading {directory.path}").message)
                continue
            keys = {(log.topic, log.partition) for log in its}
            found.update((key, offset) for key, offset in written.items() if key in keys)
            directory.gone(written.keys() - keys)
        return found


def _in(directory: LogDirectory, logs: PartitionLogs) -> list[PartitionLog]:
    return [log for log in list(logs.values()) if log.parent == directory.path]


def _write_cleaned_offsets(directory: LogDirectory, logs: list[PartitionLog]) -> None:
    cleaned = {(log.topic, log.partition): log.cleaned_to for log in logs if log.cleaned_to}
    _write(directory, directory.write_cleaned_offsets, cleaned)


def _write(
    directory: LogDirectory, write: Callable[[dict[TopicPartition, int]], None], offsets: dict[TopicPartition, int]
) -> None:
    with directory.health.raising(f"writing checkpoints in {directory.path}"):
        write(offsets)
