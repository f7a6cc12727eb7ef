"""What machines have done elsewhere: a request to another leader or to the controller, a long calculation.

One try each. A refusal goes back to the machine, which decides whether to ask again, and when.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.coordinator.effects import AtShareCoordinators, Calculation, Job, Markers, NewProducerId, ToController
from penstock.metadata.image import NOBODY
from penstock.metadata.records import (
    MetadataRecord,
    PartitionChangeRecord,
    RemoveTopicRecord,
    UnregisterBrokerRecord,
)
from penstock.metadata.topics import NO_LEADER_CHANGE
from penstock.node.controlling.broker_context import BrokerContext
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.schema import Message

if TYPE_CHECKING:
    from penstock.client.connection import Connection
    from penstock.client.link import Link
    from penstock.node.coordinators.markers import MarkerSender
    from penstock.node.coordinators.share_states import ShareStates

AnswerT = TypeVar("AnswerT", bound=Message)
Tell = Callable[[Any], Awaitable[None]]


async def _nobody(answer: Any) -> None:
    """Waits for parts of an answer."""


class Errands:
    """`connect` opens a connection to a broker, this one too: a leader is asked the same way wherever it is."""

    def __init__(self, context: BrokerContext, connect: Callable[[int], Awaitable[Connection]]) -> None:
        self._context = context
        self._connect = connect
        self._links: dict[tuple[int, str], Link] = {}
        """By broker and lane."""
        self._markers: MarkerSender | None = None
        self._share_states: ShareStates | None = None
        self._thread = ThreadPoolExecutor(1, "calculations")

    async def done(self, job: Job, tell: Tell = _nobody) -> Any:
        """What it brings; `tell` hears of what comes before, by parts. Raises KafkaError."""
        if isinstance(job, Calculation):
            return await asyncio.get_running_loop().run_in_executor(self._thread if job.in_turn else None, job.function)
        if isinstance(job, ToController):
            return await self._context.controller.submit(job.request, job.answer)
        if isinstance(job, NewProducerId):
            return await self._context.new_producer_id()
        if isinstance(job, Markers):
            return await self._marker_sender().written(job, tell)
        if isinstance(job, AtShareCoordinators):
            return await self._states().done(job)
        return await self.ask_broker(self.leader_of(job.topic, job.partition), job.request, job.answer)

    def on_metadata(self, records: Sequence[MetadataRecord]) -> None:
        self._let_go([record.broker_id for record in records if isinstance(record, UnregisterBrokerRecord)])
        if self._markers is not None and any(
            isinstance(record, RemoveTopicRecord)
            or (isinstance(record, PartitionChangeRecord) and record.leader != NO_LEADER_CHANGE)
            for record in records
        ):
            self._markers.follow()

    def on_new_image(self) -> None:
        self._let_go({broker_id for broker_id, _ in self._links}.difference(self._context.image.brokers))
        if self._markers is not None:
            self._markers.follow()

    def _let_go(self, brokers: Collection[int]) -> None:
        """They are gone for good."""
        for key in [key for key in self._links if key[0] in brokers] if brokers else ():
            self._links.pop(key).give_up("the broker was unregistered")

    def _marker_sender(self) -> MarkerSender:
        from penstock.node.coordinators.markers import MarkerSender  # few nodes coordinate transactions

        if self._markers is None:
            self._markers = MarkerSender(self)
        return self._markers

    def _states(self) -> ShareStates:
        from penstock.node.coordinators.share_states import ShareStates  # many nodes have no share groups

        if self._share_states is None:
            self._share_states = ShareStates(self._context, self)
        return self._share_states

    async def ask_broker(self, broker_id: int, request: Message, answer: type[AnswerT], *, lane: str = "") -> AnswerT:
        """Raises KafkaError NETWORK_EXCEPTION if there is no answer.

        Each lane has a connection of its own: markers, as on the common one requests may wait for those that come back,
        and what may have to wait for replicas.
        """
        from penstock.client.errors import ClientError  # a single node starts without what clients need

        try:
            connection = await self._link_to(broker_id, lane).opened()
            return await connection.request(request, answer)
        except (ClientError, DecodeError) as error:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error)) from error

    def leader_of(self, name: str, partition: int) -> int:
        """Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE."""
        topic = self._context.image.topics.get(name)
        place = None if topic is None else topic.partitions.get(partition)
        if place is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if place.leader == NOBODY:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        leader: int = place.leader
        return leader

    def _link_to(self, broker_id: int, lane: str) -> Link:
        from penstock.client.link import Link

        link = self._links.get((broker_id, lane))
        if link is None:
            link = self._links[broker_id, lane] = Link(partial(self._connect, broker_id))
        return link

    async def stop(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._markers is not None:
            await self._markers.stop()
        for link in self._links.values():
            await link.close()
