"""Logs of followers that are cut, by threads of their disks: a disk may take long, or fail.

A log is lent until it is cut (`LogHolder.lend`): nothing is appended to it, and nobody hears where it ends. What was
begun is carried out, also where its partition follows another leader by then, or none: what was cut was not committed,
and the partition obeys the metadata when it is done.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial

from penstock.log.directories.directory import LogDirectories
from penstock.log.partition_log import PartitionLog
from penstock.node.environment.tasks import all_ended
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.replication.truncation import truncation_offset

logger = logging.getLogger(__name__)


def nobody_hears(_: IsrPartition) -> None: ...


class Cuts:
    """`failed` is called with a partition that could not be cut."""

    def __init__(self, disks: LogDirectories, failed: Callable[[IsrPartition], None]) -> None:
        self._disks = disks
        self._failed = failed
        self._under_way: dict[asyncio.Future[None], None] = {}

    def where_it_parts(self, partition: IsrPartition, leader_epoch: int, leader_end_offset: int) -> None:
        """Both logs part somewhere behind what they share: what lies behind that in ours is not committed. Raises
        KafkaError.
        """
        log = partition.log
        offset = truncation_offset(
            leader_epoch,
            leader_end_offset,
            own_end_for=log.end_offset_for_epoch,
            log_end_offset=log.log_end_offset,
            high_watermark=partition.high_watermark,
        )
        logger.info("%s: cut from %d to %d, where it parts from its leader", partition, log.log_end_offset, offset)
        self._begin(partition, partition.cut_to(offset, *self._means(log)))

    def to_the_leaders_end(self, partition: IsrPartition, offset: int) -> None:
        """Raises KafkaError."""
        log = partition.log
        logger.warning(
            "%s: cut from %d to %d, the end of a leader that was elected uncleanly",
            partition,
            log.log_end_offset,
            offset,
        )
        self._begin(partition, partition.cut_to(offset, *self._means(log)))

    def anew(self, partition: IsrPartition, offset: int) -> None:
        """Raises KafkaError."""
        logger.info("%s: begins anew at %d, where its leader's log begins", partition, offset)
        self._begin(partition, partition.begin_anew_at(offset, *self._means(partition.log)))

    def _means(self, log: PartitionLog) -> tuple[Executor, Callable[[], object]]:
        """Threads of the log's disk, and how they write down how far logs there are compacted."""
        disks = self._disks
        write = partial(disks.checkpoints.write_cleaned_offsets, disks.logs, disks.roots[log.parent])
        return disks.threads_of(log), write

    def _begin(self, partition: IsrPartition, cut: asyncio.Future[None]) -> None:
        self._under_way[cut] = None
        cut.add_done_callback(partial(self._done, partition))

    def _done(self, partition: IsrPartition, cut: asyncio.Future[None]) -> None:
        del self._under_way[cut]
        error = cut.exception()
        if error is not None:
            logger.error("%s: could not be cut: %s", partition, error)
            self._failed(partition)

    async def settle(self) -> None:
        """Wait until all have ended: the files must not be closed under them. Raises KafkaError."""
        await all_ended(self._under_way)
        self._failed = nobody_hears  # who heard has this
