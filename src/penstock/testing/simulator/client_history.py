"""What the clients of a simulation saw, for the checker that users have as well (`penstock.testing.history`).

It says what holds where no record may go: without retention, power cuts that may take records, and unclean elections.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from penstock.client.values import ConsumedRecord, TopicPartition
from penstock.testing.history import History, Outcome

READER = "reader"


class ClientHistory:
    """Kept by topic, as topics may be deleted."""

    def __init__(self) -> None:
        self._events: list[tuple[str, Callable[[History], None]]] = []
        self._read: dict[tuple[TopicPartition, int], str] = {}
        self._left: dict[tuple[TopicPartition, int], None] = {}

    def sent(
        self, producer: str, where: TopicPartition, value: bytes, outcome: Outcome, offset: int, *, idempotent: bool
    ) -> None:
        def tell(history: History) -> None:
            history.sent(producer, where, value, outcome, offset=offset, idempotent=idempotent)

        self._events.append((where.topic, tell))

    def polled(self, consumer: str, record: ConsumedRecord) -> None:
        where, offset, value = record.topic_partition, record.offset, record.value
        if consumer == READER:
            self._left[where, offset] = None
        else:
            self._read.setdefault((where, offset), consumer)
        self._events.append((where.topic, lambda history: history.polled(consumer, where, offset, value)))

    def moved(self, consumer: str, where: TopicPartition) -> None:
        self._events.append((where.topic, lambda history: history.moved(consumer, where)))

    def anomalies(self, topics: Collection[str]) -> Iterator[str]:
        """Of the topics that still exist."""
        history = History()
        for topic, tell in self._events:
            if topic in topics:
                tell(history)
        yield from map(str, history.anomalies())
        for (where, offset), consumer in self._read.items():
            if where.topic in topics and (where, offset) not in self._left:
                yield f"{consumer} read {where} offset {offset}, which was never committed"
