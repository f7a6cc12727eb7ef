"""What a log directory holds, and how much room there is."""

from collections.abc import Iterable

from penstock.log.checkpoint import TopicPartition
from penstock.log.directories.log_directory import LogDirectory
from penstock.log.disk import Disk
from penstock.log.partition_log import PartitionLog
from penstock.protocol.errors import KafkaError
from penstock.protocol.value import Value


class DirectoryDescription(Value, kw_only=True):
    """As in DescribeLogDirs; sizes are bytes. With a `failure` none of them is known."""

    path: str
    total_bytes: int
    usable_bytes: int
    sizes: dict[TopicPartition, int]
    failure: KafkaError | None = None


def describe(disk: Disk, directory: LogDirectory, logs: Iterable[PartitionLog]) -> DirectoryDescription:
    path, failure = directory.path, directory.health.failure
    try:
        if failure is None:
            total, usable = disk.space(path)
            sizes = {(log.topic, log.partition): log.size_bytes for log in logs}
            return DirectoryDescription(path=path, total_bytes=total, usable_bytes=usable, sizes=sizes)
    except OSError as error:
        failure = directory.health.report(error, f"asking for the space in {path}")
    except KafkaError as error:
        failure = error
    return DirectoryDescription(path=path, total_bytes=-1, usable_bytes=-1, sizes={}, failure=failure)
