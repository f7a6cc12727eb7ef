"""Replies that wait until every broker in service has applied what was decided.

A rule that was taken back, or that denies, holds for the client that is told so: no broker goes by the old ones then.
Brokers say in their heartbeats how far they are; one that is fenced acts as a leader no longer, and is not let in
before it has caught up (`Heartbeats.loses`).
"""

import asyncio
from collections import OrderedDict
from typing import Any

from penstock.controller.heartbeats import Heartbeats
from penstock.metadata.image import ClusterImage
from penstock.protocol.errors import KafkaError


class SeenByBrokers:
    """`image` has what is committed: a broker that is about to be fenced still counts."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._unseen: OrderedDict[asyncio.Future[Any], tuple[int, object]] = OrderedDict()
        """Who waits, in the order of the log: the offset of a record, and the reply."""

    def answer(self, offset: int, waiting: asyncio.Future[Any], reply: object) -> None:
        """Once `look` finds that all have applied the record at that offset, which is committed."""
        self._unseen[waiting] = offset, reply
        waiting.add_done_callback(self._forget)

    def _forget(self, waiting: asyncio.Future[Any]) -> None:
        """The client may have gone, or its time is over."""
        self._unseen.pop(waiting, None)

    def look(self, heartbeats: Heartbeats) -> None:
        """Who waits for a later record than the first one that is not seen is not looked at."""
        seen_until = heartbeats.seen_until(self._image, self._image.brokers) if self._unseen else 0
        while self._unseen:
            waiting, (offset, reply) = next(iter(self._unseen.items()))
            if offset > seen_until:
                break
            del self._unseen[waiting]
            if not waiting.done():
                waiting.set_result(reply)

    def give_up(self, error: KafkaError) -> None:
        unseen, self._unseen = self._unseen, OrderedDict()
        for waiting in unseen:
            if not waiting.done():
                waiting.set_exception(error)
