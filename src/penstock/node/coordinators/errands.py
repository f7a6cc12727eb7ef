"""What machines have done elsewhere: a request to another leader or to the controller, a long calculation.

One try each. A refusal goes back to the machine, which decides whether to ask again, and when.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.coordinator.effects import Calculation, Job, ToController, ToLeader
from penstock.metadata.image import NOBODY, ClusterImage
from penstock.node.controlling.commands import ActiveController
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError

if TYPE_CHECKING:
    from penstock.client.connection import Connection
    from penstock.client.link import Link


class Errands:
    """`connect` opens a connection to a broker, this one too: a leader is asked the same way wherever it is."""

    def __init__(
        self, image: ClusterImage, controller: ActiveController, connect: Callable[[int], Awaitable[Connection]]
    ) -> None:
        self._image = image
        self._controller = controller
        self._connect = connect
        self._links: dict[int, Link] = {}

    async def done(self, job: Job) -> Any:
        """What it brings. Raises KafkaError."""
        if isinstance(job, Calculation):
            return await asyncio.get_running_loop().run_in_executor(None, job.function)
        if isinstance(job, ToController):
            return await self._controller.submit(job.request, job.answer)
        return await self._ask_leader(job)

    async def _ask_leader(self, job: ToLeader) -> Any:
        from penstock.client.errors import ClientError  # a single node starts without what clients need

        try:
            connection = await self._link_to(self._leader_of(job)).opened()
            return await connection.request(job.request, job.answer)
        except (ClientError, DecodeError) as error:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error)) from error

    def _leader_of(self, job: ToLeader) -> int:
        topic = self._image.topics.get(job.topic)
        place = None if topic is None else topic.partitions.get(job.partition)
        if place is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if place.leader == NOBODY:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        leader: int = place.leader
        return leader

    def _link_to(self, broker_id: int) -> Link:
        from penstock.client.link import Link

        if broker_id not in self._links:
            self._links[broker_id] = Link(partial(self._connect, broker_id))
        return self._links[broker_id]

    async def stop(self) -> None:
        for link in self._links.values():
            await link.close()
