"""What the tests of the quorum's storage share: logs and snapshots in a directory, batches in one line."""

from penstock.log.config import LogConfig
from penstock.log.disk import Disk
from penstock.log.open_files import OpenFiles
from penstock.log.partition_log import PartitionLog
from penstock.log.removals import Removals
from penstock.node.quorum.stored_log import StoredLog
from penstock.node.quorum.stored_snapshots import StoredSnapshots
from penstock.protocol.records import Record, encode_batch
from penstock.raft.ports import SnapshotId

SMALL = LogConfig(segment_bytes=300, index_interval_bytes=50, retention_ms=-1)
TOPIC = "__cluster_metadata"


def batch(offset: int, epoch: int, count: int = 1, value: bytes = b"value") -> bytes:
    records = [Record(timestamp_ms=1_000 + offset, value=value) for _ in range(count)]
    return bytes(encode_batch(records, base_offset=offset, partition_leader_epoch=epoch))


class Store:
    """One replica's directory, as one process after the other finds it."""

    def __init__(self, directory: str, config: LogConfig = SMALL, disk: Disk | None = None) -> None:
        self.directory = f"{directory}/{TOPIC}-0"
        self.config = config
        self.disk = disk or Disk()
        self.open()

    def open(self, *, is_clean: bool = False, recovery_point: int = 0, log_start_offset: int = 0) -> None:
        """A process begins; the numbers are what the checkpoints of the log directory say."""
        self.snapshots = StoredSnapshots(self.disk, self.directory)
        self.removals = Removals(self.disk)
        self.partition = PartitionLog(
            OpenFiles(self.disk, 100),
            self.removals,
            self.directory,
            TOPIC,
            0,
            self.config,
            is_clean=is_clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
        )
        self.log = StoredLog(self.partition, self.snapshots)

    def restart(self) -> None:
        """Stop cleanly and start again."""
        self.partition.close()
        end_offset, start_offset = self.partition.recovery_point, self.partition.start_to_checkpoint
        self.open(is_clean=True, recovery_point=end_offset, log_start_offset=start_offset or 0)

    def crash(self) -> None:
        """The process is killed, the checkpoints tell nothing."""
        self.partition.abandon()
        self.open()

    def append(self, *epochs_and_counts: tuple[int, int]) -> None:
        """Append batches, each of an epoch and with so many records."""
        for epoch, count in epochs_and_counts:
            self.log.append(batch(self.log.end_offset, epoch, count))

    def snapshot(self, end_offset: int, epoch: int, content: bytes = b"content") -> SnapshotId:
        """A whole snapshot."""
        snapshot = SnapshotId(end_offset, epoch)
        self.snapshots.write(snapshot, [content])
        return snapshot
