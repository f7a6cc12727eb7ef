"""Replies that wait until every broker in service has applied what was decided.

A rule that was taken back, or that denies, holds for the client that is told so: no broker goes by the old ones then.
Brokers say in their heartbeats how far they are; one that is fenced acts as a leader no longer, and is not let in
before it has caught up (`Heartbeats.loses`).
"""

import asyncio
from typing import Any

from penstock.controller.heartbeats import Heartbeats
from penstock.metadata.image import ClusterImage
from penstock.protocol.errors import KafkaError
from penstock.protocol.value import Value


class _Unseen(Value):
    offset: int
    waiting: asyncio.Future[Any]
    reply: object


class SeenByBrokers:
    """`image` has what is committed: a broker that is about to be fenced still counts."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._unseen: list[_Unseen] = []

    def answer(self, offset: int, waiting: asyncio.Future[Any], reply: object) -> None:
        """Once `look` finds that all have applied the record at that offset, which is committed."""
        self._unseen.append(_Unseen(offset, waiting, reply))

    def look(self, heartbeats: Heartbeats) -> None:
        left = []
        for one in self._unseen:
            if one.waiting.done():  # the client may have gone, or its time is over
                continue
            if heartbeats.seen_by(self._image, one.offset, self._image.brokers):
                one.waiting.set_result(one.reply)
            else:
                left.append(one)
        self._unseen = left

    def give_up(self, error: KafkaError) -> None:
        unseen, self._unseen = self._unseen, []
        for one in unseen:
            if not one.waiting.done():
                one.waiting.set_exception(error)
