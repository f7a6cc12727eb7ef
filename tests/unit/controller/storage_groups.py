"""A cluster of three brokers with topics in storage groups, and what its groups ask for."""

from typing import Any
from uuid import UUID

from tests.unit.controller.cluster import active_controller, carry_out, heartbeat, join

from penstock.controller.controller import Controller
from penstock.metadata.image import PartitionImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.protocol.requests.own_apis import ClaimStorageGroupRequest


def directory(broker_id: int, number: int = 0) -> UUID:
    """A directory of a broker."""
    return UUID(int=1000 * broker_id + number)


def cluster(**settings: Any) -> Controller:
    """Three active brokers, each with one directory."""
    controller = active_controller(log_dirs=[directory(1)], **settings)
    for broker_id in (2, 3):
        join(controller, broker_id, [directory(broker_id)])
    return controller


def topic(
    name: str, *replicas: list[int], partitions: int = 2, factor: int = 3, mode: str = "consensus", **configs: str
) -> CreatableTopic:
    """A topic to be created, in a storage group; `replicas` are named by hand."""
    configs = {"replication.mode": mode} | {key.replace("_", "."): value for key, value in configs.items()}
    return CreatableTopic(
        name=name,
        num_partitions=-1 if replicas else partitions,
        replication_factor=-1 if replicas else factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in enumerate(replicas)
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )


def created(controller: Controller, *topics: CreatableTopic) -> list[tuple[int, str | None]]:
    """What becomes of topics that are created with one request: codes and messages."""
    reply = carry_out(controller, CreateTopicsRequest(topics=list(topics)))
    return [(ErrorCode(result.error_code), result.error_message) for result in reply.topics]


def claim(
    controller: Controller, broker_id: int, group_epoch: int, *caught_up: int, group: int = 0, **fields: Any
) -> Any:
    """The code that a broker is answered who claims a group."""
    known = controller.image.brokers.get(broker_id)
    fields.setdefault("broker_epoch", -1 if known is None else known.epoch)
    request = ClaimStorageGroupRequest(
        broker_id=broker_id, group=group, group_epoch=group_epoch, caught_up=list(caught_up), **fields
    )
    return ErrorCode(carry_out(controller, request).error_code)


def group(controller: Controller, number: int = 0) -> PartitionImage:
    """The partition that is a group."""
    return controller.image.topics[STORAGE_GROUPS].partitions[number]


def led(controller: Controller, *names: str) -> dict[tuple[int, tuple[int, ...]], int]:
    """Leaders and ISRs of all partitions of topics, and how many have each."""
    found: dict[tuple[int, tuple[int, ...]], int] = {}
    for name in names:
        for one in controller.image.topics[name].partitions.values():
            found[one.leader, one.isr] = found.get((one.leader, one.isr), 0) + 1
    return found


def fence(controller: Controller, broker_id: int) -> None:
    """A broker says that it wants to be fenced."""
    carry_out(controller, heartbeat(controller, broker_id, want_fence=True))
