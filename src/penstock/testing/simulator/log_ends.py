"""Produces and reads of a partition are linearizable, if there is one order of them all that agrees with the time.

Each has its place: a produce its offset, and a read the end of the log that it saw. So the order is known, and what is
left to check is that none stands before what was over when it began: such a produce would have been put between records
that were there, and such a read is stale. A request takes `reached` along.

| partition                                      | produces | reads                                                    |
| ---------------------------------------------- | -------- | -------------------------------------------------------- |
| of a storage group                             | all      | ListOffsets, and the high watermark of Fetch             |
| with an ISR, if brokers refuse without a lease | acks=all | ListOffsets, and the high watermark of Fetch of a leader |
|                                                |          | that has answered ListOffsets in the same epoch          |

A leader with an ISR begins with a high watermark that may be older than what was acknowledged before it. Until it has
reached the beginning of the leader's epoch, ListOffsets is refused (KIP-207), and Fetch gives less than there is: a
consumer sees the rest a moment later. From the first answer of ListOffsets on, the leader knows all that was
acknowledged.

One read is not promised to be new: of a leader that was taken out of the ISR although the controller hears it, by a
move to other replicas, or as it lags behind its successor. No commit waits for it, and it answers until it hears of
that, for as long as its lease lasts (`Ledger.promised_ends`).
"""

from collections.abc import Callable

from penstock.client.values import TopicPartition


class LogEnds:
    """The furthest end of each partition in any answer; `violated` is told of an answer that goes less far."""

    def __init__(self, violated: Callable[[str], None]) -> None:
        self._violated = violated
        self._ends: dict[TopicPartition, int] = {}

    def reached(self) -> dict[TopicPartition, int]:
        """The least ends of partitions now; 0 for missing ones."""
        return dict(self._ends)

    def produced(self, where: TopicPartition, offset: int, before: int) -> None:
        """A record has got this offset; `before` was reached when it was sent."""
        if offset < before:
            self._violated(f"{where}: a record was sent when the log went to {before}, and was put at {offset}")
        self.goes_to(where, offset + 1)

    def read(self, who: str, where: TopicPartition, end: int, before: int) -> None:
        """A broker answered with this end; `before` was reached when it was asked."""
        if end < before:
            self._violated(f"{who} answered that {where} ends at {end}, after somebody knew of {before}")
        self.goes_to(where, end)

    def goes_to(self, where: TopicPartition, end: int) -> None:
        """An answer had this end."""
        self._ends[where] = max(end, self._ends.get(where, 0))

    def lost(self, where: TopicPartition, end: int) -> None:
        """Power cuts may have taken records behind this end."""
        self._ends[where] = min(end, self._ends.get(where, 0))
