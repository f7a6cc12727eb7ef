"""A controller with one active broker, and commands for it."""

import random
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from penstock.controller.config_rules import DefinedConfigs
from penstock.controller.controller import Controller
from penstock.controller.decision import ControllerSettings
from penstock.metadata.image import ClusterImage
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.messages.broker_registration import BrokerRegistrationRequest, Listener
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.schema import Message

CLUSTER = "penstock"


def carry_out(controller: Controller, command: Message) -> Any:
    """Decides, applies at once, and gives the reply."""
    decision = controller.decide(command, 0)
    controller.apply(decision.records)
    return decision.reply


def join(controller: Controller, broker_id: int, log_dirs: Sequence[UUID] = ()) -> int:
    """A broker registers and is unfenced; returns its epoch."""
    registration = BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=CLUSTER,
        incarnation_id=UUID(int=controller.state.next_offset + 1),
        listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9092 + broker_id)],
        log_dirs=list(log_dirs),
    )
    epoch: int = carry_out(controller, registration).broker_epoch
    carry_out(
        controller, BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=epoch)
    )
    return epoch


def active_controller(
    *, static: Mapping[str, str] | None = None, log_dirs: Sequence[UUID] = (), delete_topic_enable: bool = True
) -> Controller:
    """The controller of a cluster in which broker 1 is active."""
    settings = ControllerSettings(rules=DefinedConfigs(static or {}), delete_topic_enable=delete_topic_enable)
    controller = Controller(ClusterImage(CLUSTER), settings, random.Random(1))
    join(controller, 1, log_dirs)
    return controller


def create(name: str, partitions: int = 1) -> CreateTopicsRequest:
    """The command that creates one topic."""
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)])
