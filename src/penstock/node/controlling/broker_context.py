"""What all parts of a broker have in common: the node, the way to the controller, its life in the cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.node.controlling.commands import ActiveController
from penstock.node.controlling.lease import BrokerLease
from penstock.node.controlling.producer_ids import ProducerIds
from penstock.node.environment.context import NodeContext
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from penstock.protocol.value import Value, fresh

if TYPE_CHECKING:
    from penstock.node.telemetry.receiver import TelemetryReceiver


class BrokerContext(Value):
    """Made once for each life of a broker; what it holds changes, it does not."""

    node: NodeContext
    controller: ActiveController
    lease: BrokerLease
    producer_ids: ProducerIds = fresh(ProducerIds)
    telemetry: TelemetryReceiver | None = None
    """Takes metrics of clients, where they are wanted."""

    @property
    def node_id(self) -> int:
        return self.node.node_id

    @property
    def config(self) -> BrokerConfig:
        return self.node.config

    @property
    def image(self) -> ClusterImage:
        return self.node.image

    @property
    def broker_epoch(self) -> int:
        """Of this registration; -1 before the first."""
        return self.lease.broker_epoch

    def now_ms(self) -> int:
        return self.node.now_ms()

    def take_producer_id(self) -> int | None:
        """An id that no producer had; None if one has to wait for it (`new_producer_id`)."""
        return self.producer_ids.take_now(self._allocate)

    async def new_producer_id(self) -> int:
        """Raises KafkaError COORDINATOR_LOAD_IN_PROGRESS if the controller gives none."""
        return await self.producer_ids.take(self._allocate)

    def _allocate(self) -> asyncio.Future[AllocateProducerIdsResponse]:
        command = AllocateProducerIdsRequest(broker_id=self.node_id, broker_epoch=self.broker_epoch)
        return self.controller.submit(command, AllocateProducerIdsResponse)
