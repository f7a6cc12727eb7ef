"""A quorum's log on the disk whose syncs a test can hold up or let fail."""

import threading
from pathlib import Path

from penstock.log.config import LogConfig
from penstock.log.disk import Disk
from penstock.log.open_files import OpenFiles
from penstock.log.partition_log import PartitionLog
from penstock.log.removals import Removals
from penstock.node.quorum.stored_log import StoredLog
from penstock.node.quorum.stored_snapshots import StoredSnapshots
from penstock.protocol.varint import Buffer


class GatedLog(StoredLog):
    """As a `StoredLog`; each sync waits until `open` is set, which it is at first."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self.partition_log = PartitionLog(
            OpenFiles(Disk()), Removals(Disk()), str(directory), "__cluster_metadata", 0, LogConfig()
        )
        self.snapshots = StoredSnapshots(Disk(), str(directory))
        super().__init__(self.partition_log, self.snapshots)
        self.syncs = 0
        self.write_error: Exception | None = None
        self.sync_error: Exception | None = None
        self.open = threading.Event()
        self.open.set()
        self.started = threading.Event()

    def append(self, batches: Buffer) -> None:
        if self.write_error is not None:
            raise self.write_error
        super().append(batches)

    def flush(self) -> None:
        self.started.set()
        assert self.open.wait(timeout=30)
        self.syncs += 1
        if self.sync_error is not None:
            raise self.sync_error
        super().flush()
