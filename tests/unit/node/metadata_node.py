"""A broker with a real controller over a log in memory: enough for the handlers that deal with metadata."""

from collections.abc import Mapping
from random import Random
from typing import cast
from uuid import UUID

from tests.unit.node.memory_log import MemoryLog

from penstock.controller.config_rules import DefinedConfigs
from penstock.controller.decision import ControllerSettings
from penstock.log.disk import Disk
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage, Endpoint
from penstock.node.broker import Broker
from penstock.node.controller_driver import ControllerDriver
from penstock.node.handler import RequestContext
from penstock.node.metadata_log import MetadataLog
from penstock.node.partitions import PartitionTable
from penstock.node.registration import BrokerIdentity, join
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

NODE = 1
CLUSTER = "4L6g3nShT-eMCtK--X86sw"


async def start_broker(directory: str, overrides: Mapping[str, str] | None = None) -> tuple[Broker, MemoryLog]:
    """Starts the controller and registers this broker with a listener of its own and one for other brokers."""
    config = BrokerConfig.embedded({"num.partitions": "2"} | dict(overrides or {}))
    image = ClusterImage(CLUSTER)
    log = MemoryLog(directory)
    settings = ControllerSettings(
        rules=DefinedConfigs(config.static), num_partitions=config.num_partitions, default_replication_factor=1
    )
    driver = ControllerDriver(
        MetadataLog(log, Disk(), NODE, lambda: 1_000), image, settings, Random(1), node_id=NODE, now_ms=lambda: 1_000
    )
    await driver.start()
    endpoints = [Endpoint("PLAINTEXT", "127.0.0.1", 9092), Endpoint("BROKERS", "10.0.0.1", 9093)]
    identity = BrokerIdentity(node_id=NODE, incarnation_id=UUID(int=1), endpoints=endpoints, rack="east")
    epoch = await join(driver, identity)
    broker = Broker(
        config=config,
        node_id=NODE,
        cluster_id=CLUSTER,
        image=image,
        partitions=cast("PartitionTable", None),
        controller=driver,
        broker_epoch=epoch,
    )
    return broker, log


def context(version: int, listener: str = "PLAINTEXT") -> RequestContext:
    """A request of that version by that listener."""
    return RequestContext(
        api_key=0,
        api_version=version,
        correlation_id=1,
        client_id="test",
        client_host="127.0.0.1",
        listener=listener,
        connection_id=1,
    )


async def create(broker: Broker, name: str, partitions: int = 1) -> None:
    """Creates a topic and waits for it."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    reply = await broker.controller.submit(CreateTopicsRequest(topics=[topic]))
    assert reply.topics[0].error_code == 0
