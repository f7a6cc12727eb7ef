"""The names of files and directories in a log directory, as Kafka writes them."""

import uuid

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
SNAPSHOT_SUFFIX = ".snapshot"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
LEFTOVER_SUFFIXES = (DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")
DELETED_DIRECTORY_SUFFIX = "-delete"
STRAY_DIRECTORY_SUFFIX = "-stray"
"""It belongs to no partition."""
FUTURE_DIRECTORY_SUFFIX = "-future"
"""It is on its way from another log directory (KIP-113)."""
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
MAX_NAME_BYTES = 255


def offset_prefix(offset: int) -> str:
    return f"{offset:020d}"


def offset_of(name: str) -> int | None:
    """None if it is not a segment's file."""
    digits = name.partition(".")[0]
    return int(digits) if len(digits) == 20 and digits.isdecimal() and digits.isascii() else None


def partition_directory(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def renamed_partition_directory(suffix: str, topic: str, partition: int, unique_id: uuid.UUID) -> str:
    """`<topic>-<partition>.<32 hex digits>-<why>`, the topic cut so that a file system can take the name."""
    suffix = f"-{partition}.{unique_id.hex}{suffix}"
    return topic[: MAX_NAME_BYTES - len(suffix)] + suffix


def unique_id_of(name: str) -> uuid.UUID | None:
    """The directory's name has it behind the partition."""
    digits = name.rpartition(".")[2].partition("-")[0]
    try:
        return uuid.UUID(hex=digits) if len(digits) == 32 else None
    except ValueError:
        return None


def parse_future_directory(name: str) -> tuple[str, int] | None:
    """(topic, partition), or None for another kind of name."""
    return parse_put_away_directory(name) if name.endswith(FUTURE_DIRECTORY_SUFFIX) else None


def parse_partition_directory(name: str) -> tuple[str, int] | None:
    """(topic, partition), or None for another kind of name."""
    topic, _, digits = name.rpartition("-")
    if not topic or not digits.isdecimal() or digits != str(int(digits)):
        return None
    return topic, int(digits)


def parse_put_away_directory(name: str) -> tuple[str, int] | None:
    """(topic, partition) of a directory that was renamed: deleted, set aside or on its way; else None."""
    suffixes = (DELETED_DIRECTORY_SUFFIX, STRAY_DIRECTORY_SUFFIX, FUTURE_DIRECTORY_SUFFIX)
    if not name.endswith(suffixes) or unique_id_of(name) is None:
        return None
    return parse_partition_directory(name.rpartition(".")[0])
