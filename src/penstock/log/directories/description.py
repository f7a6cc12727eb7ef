"""What a log directory holds, and how much room there is."""

from penstock.log.directories.log_directory import LogDirectory
from penstock.log.disk import Disk
from penstock.protocol.errors import KafkaError
from penstock.protocol.value import Value


class DirectoryDescription(Value, kw_only=True):
    """As in DescribeLogDirs. With a `failure` nothing else is known."""

    path: str
    total_bytes: int
    usable_bytes: int
    failure: KafkaError | None = None
    is_cordoned: bool = False


def describe(disk: Disk, directory: LogDirectory) -> DirectoryDescription:
    path, failure = directory.path, directory.health.failure
    try:
        if failure is None:
            total, usable = disk.space(path)
            return DirectoryDescription(path=path, total_bytes=total, usable_bytes=usable)
    except OSError as error:
        failure = directory.health.report(error, f"asking for the space in {path}")
    return DirectoryDescription(path=path, total_bytes=-1, usable_bytes=-1, failure=failure)
