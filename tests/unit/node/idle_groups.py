"""Brokers of tests, on whatever a test has of a node, and a group coordinator for them."""

from random import Random
from typing import cast

from tests.unit.node.contexts import broker_context, node_context

from penstock.client.connection import Connection
from penstock.client.errors import ConnectionFailedError
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.metadata.topics import TopicImage
from penstock.node.controlling.broker_context import BrokerContext
from penstock.node.controlling.commands import NoController
from penstock.node.coordinators.errands import Errands
from penstock.node.coordinators.groups import GroupCoordinator
from penstock.node.coordinators.host import HostContext
from penstock.node.partitions.moves import DirectoryMoves
from penstock.node.partitions.partition import Partition
from penstock.node.partitions.replicas import LocalReplicas
from penstock.node.partitions.table import PartitionTable
from penstock.node.roles.broker import Broker, HeldLogs
from penstock.node.serving.handler import Handler


def idle_groups(config: BrokerConfig, image: ClusterImage, table: PartitionTable) -> GroupCoordinator:
    """One that leads nothing and creates nothing."""
    context = HostContext(
        node_id=1,
        image=image,
        partitions=table,
        hold_missing=no_log,
        create_topic=no_topic,
        now_ms=lambda: 0,
        errands=no_errands(image),
    )
    return GroupCoordinator(config, context, Random(1))


def no_log(topic: TopicImage, index: int) -> Partition | None:
    return None


async def no_topic(name: str) -> None:
    """Nobody is asked to create it."""


def no_errands(image: ClusterImage) -> Errands:
    """For machines that have nothing done elsewhere."""
    context = broker_context(node_context(BrokerConfig.embedded({}), image), NoController())
    return Errands(context, no_connection)


async def no_connection(broker_id: int) -> Connection:
    raise ConnectionFailedError(f"broker {broker_id} is not there")


NO_REPLICAS = cast("LocalReplicas", None)
NO_MOVES = cast("DirectoryMoves", None)
"""For a broker whose handlers are asked for nothing that lies in a log directory."""


def broker_on(
    context: BrokerContext, held: HeldLogs | None = None, handlers: dict[int, Handler] | None = None
) -> Broker:
    """A broker that coordinates nothing, and holds nothing if that is not said."""
    if held is None:
        held = HeldLogs(partitions=PartitionTable(), replicas=NO_REPLICAS, moves=NO_MOVES)
    return Broker(context, held, idle_groups(context.config, context.image, held.partitions), handlers=handlers)
