"""What a log knows of idempotent producers: all that its own batches say, whatever restarts there were.

| what                                  | rule                                                              |
| ------------------------------------- | ----------------------------------------------------------------- |
| the last five batches of a producer's | are remembered, however the log was closed and opened: each may   |
| present epoch                         | be sent once more, and is to be answered, not written again       |
| a transaction that is open            | is open, from the same offset on                                  |
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.log.partition_log import PartitionLog
from penstock.log.producer_snapshots import replay
from penstock.log.producer_state import NO_OFFSET, Producers
from penstock.node.partitions.partition import Partition

Place = tuple[str, str, int]


class RememberedBatches:
    def __init__(self, violated: Callable[[str], None]) -> None:
        self._violated = violated
        self._looked_at: dict[Place, PartitionLog] = {}

    def look(self, name: str, partition: Partition) -> None:
        """Once for each time that a node opens a log. Compaction leaves less in a log than there is to know."""
        place, log = (name, partition.topic, partition.index), partition.log
        if self._looked_at.get(place) is log or not log.is_loaded or log.config.is_compacted:
            return
        self._looked_at[place] = log
        written = Producers()
        replay(written, log.load().aborted, log.segments, 0)
        for producer in written:
            known = log.producers.get(producer.producer_id)
            remembered = [] if known is None or known.epoch != producer.epoch else known.batches
            places = {batch[:-1] for batch in remembered}  # the time of the last one is that of what came after it
            forgotten = [batch for batch in producer.batches if batch[:-1] not in places]
            if forgotten:
                self._violated(f"{name}: {partition} has forgotten of producer {producer.producer_id}: {forgotten}")
            first = NO_OFFSET if known is None else known.transaction_first_offset
            if log.segments[0].base_offset == 0 and first != producer.transaction_first_offset:
                self._violated(
                    f"{name}: to {partition} the transaction of producer {producer.producer_id} began at {first},"
                    f" in the log at {producer.transaction_first_offset}"
                )

    def forget_node(self, name: str) -> None:
        for place in [place for place in self._looked_at if place[0] == name]:
            del self._looked_at[place]
