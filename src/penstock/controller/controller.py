"""What the active controller decides: a command in, metadata records and a reply out.

Commands are the request messages of Kafka's own protocol. `decide` changes nothing that is in a record; the caller
appends the records as one and applies them here, so that the next decision sees them, and sends the reply once they are
committed. A command that cannot be carried out yields no records and a reply with Kafka's error code.

So this image runs ahead of what is committed. A controller that is no longer active forgets it, and the next one starts
from what was committed.

What nobody asks for, `tick` decides: brokers that fall silent are fenced, moves that were too many for one decision go
on, leadership returns to preferred replicas. The caller needs one timer, for `next_deadline_ms`.
"""

from collections.abc import Callable, Iterable
from typing import Any

from penstock.controller.alter_configs import decide_alter_configs, decide_incremental_alter_configs
from penstock.controller.alter_partition import decide_alter_partition
from penstock.controller.assign_directories import decide_assign_replicas_to_dirs
from penstock.controller.brokers import decide_broker_heartbeat
from penstock.controller.create_partitions import decide_create_partitions
from penstock.controller.create_topics import decide_create_topics
from penstock.controller.decision import Chance, ControllerSettings, ControllerState, Decision, ReplyT
from penstock.controller.delete_topics import decide_delete_topics
from penstock.controller.elect_leaders import decide_elect_leaders
from penstock.controller.producer_ids import decide_allocate_producer_ids
from penstock.controller.reassignments import decide_alter_partition_reassignments
from penstock.controller.registrations import (
    decide_broker_registration,
    decide_controller_registration,
    decide_unregister_broker,
)
from penstock.controller.update_features import decide_update_features
from penstock.controller.upkeep import Upkeep
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import MetadataRecord
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from penstock.protocol.messages.alter_configs import AlterConfigsRequest
from penstock.protocol.messages.alter_partition import AlterPartitionRequest
from penstock.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from penstock.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.messages.broker_registration import BrokerRegistrationRequest
from penstock.protocol.messages.controller_registration import ControllerRegistrationRequest
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest
from penstock.protocol.messages.create_topics import CreateTopicsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest
from penstock.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest
from penstock.protocol.messages.update_features import UpdateFeaturesRequest
from penstock.protocol.schema import Message

DECISIONS: dict[type[Message], Callable[[ControllerState, Any, int], Decision[Any]]] = {
    CreateTopicsRequest: decide_create_topics,
    DeleteTopicsRequest: decide_delete_topics,
    CreatePartitionsRequest: decide_create_partitions,
    AlterConfigsRequest: decide_alter_configs,
    IncrementalAlterConfigsRequest: decide_incremental_alter_configs,
    AllocateProducerIdsRequest: decide_allocate_producer_ids,
    BrokerRegistrationRequest: decide_broker_registration,
    BrokerHeartbeatRequest: decide_broker_heartbeat,
    ControllerRegistrationRequest: decide_controller_registration,
    UnregisterBrokerRequest: decide_unregister_broker,
    AlterPartitionRequest: decide_alter_partition,
    AssignReplicasToDirsRequest: decide_assign_replicas_to_dirs,
    ElectLeadersRequest: decide_elect_leaders,
    AlterPartitionReassignmentsRequest: decide_alter_partition_reassignments,
    UpdateFeaturesRequest: decide_update_features,
}
"""Every command, with what decides on it."""


class Controller:
    """The replicated machine of the cluster's metadata."""

    def __init__(
        self, image: ClusterImage, settings: ControllerSettings, chance: Chance, *, next_offset: int = 0
    ) -> None:
        """Starts from `image`, which becomes the controller's own; its next record will have `next_offset`."""
        self.state = ControllerState(image, settings, chance, next_offset)
        self._upkeep = Upkeep(self.state)

    @property
    def image(self) -> ClusterImage:
        """The state after all records decided so far, committed or not."""
        return self.state.image

    def decide(self, command: Message, now_ms: int) -> Decision[Any]:
        """Decides on any command of `DECISIONS`; the reply is the response message of the command's API.

        `now_ms` comes from a clock that never goes back, here and in `tick`.
        """
        self._open(now_ms)
        return self._closed(DECISIONS[type(command)](self.state, command, now_ms))

    @property
    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do: perhaps at once, perhaps never. Each decision may change it."""
        return self._upkeep.next_deadline_ms

    def tick(self, now_ms: int) -> Decision[None] | None:
        """Decides one thing that is due; None if nothing is. There may be more: `next_deadline_ms` tells."""
        self._open(now_ms)
        decision = self._closed(Decision(self._upkeep.due(now_ms), None))
        return decision if decision.records else None

    def apply(self, records: Iterable[MetadataRecord]) -> None:
        """Takes the records of the last decision, which were appended, into the state."""
        for record in records:
            self.state.image.apply(record)
            self.state.next_offset += 1
        self.state.heartbeats.close_decision()

    def _open(self, now_ms: int) -> None:
        self._upkeep.begin(now_ms)
        self.state.heartbeats.open_decision()

    def _closed(self, decision: Decision[ReplyT]) -> Decision[ReplyT]:
        if not decision.records:
            self.state.heartbeats.close_decision()
        return decision
