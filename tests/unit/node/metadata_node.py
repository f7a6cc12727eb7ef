"""A broker with a real controller over a log on the disk: enough for the handlers that deal with metadata."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.unit.node.contexts import broker_context, node_context
from tests.unit.node.controller_node import CLUSTER, NODE, Channel, node_over
from tests.unit.node.gated_log import GatedLog
from tests.unit.node.idle_groups import broker_on

from penstock.controller.config_rules import DefinedConfigs
from penstock.controller.decision import ControllerSettings
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import Endpoint
from penstock.node.api.broker import PASSED_ON
from penstock.node.controlling.broker_lifecycle import BrokerIdentity
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.session import Session
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.schema import Message

__all__ = ["CLUSTER", "NODE", "context", "create", "handed_on", "start_broker"]


async def start_broker(directory: str, overrides: Mapping[str, str] | None = None) -> tuple[Broker, GatedLog]:
    """Starts the controller and registers this broker with a listener of its own and one for other brokers."""
    config = BrokerConfig.embedded({"num.partitions": "2"} | dict(overrides or {}))
    log = GatedLog(Path(directory))
    settings = ControllerSettings(
        rules=DefinedConfigs(config.static),
        node_id=NODE,
        num_partitions=config.num_partitions,
        default_replication_factor=1,
    )
    node = node_over(log, settings=settings)
    await node.start()
    endpoints = [Endpoint("PLAINTEXT", "127.0.0.1", 9092), Endpoint("BROKERS", "10.0.0.1", 9093)]
    epoch = await node.join(BrokerIdentity(node_id=NODE, incarnation_id=UUID(int=1), endpoints=endpoints, rack="east"))
    broker = broker_on(broker_context(node_context(config, node.image), Channel(node.controller)))
    broker.lease.is_registered(epoch)
    return broker, log


def context(version: int, listener: str = "PLAINTEXT") -> RequestContext:
    """A request of that version by that listener."""
    return RequestContext(
        api_key=0,
        api_version=version,
        correlation_id=1,
        client_id="test",
        session=Session("127.0.0.1", 1234, listener, 1),
    )


async def handed_on(broker: Broker, context: RequestContext, request: Message) -> Any:
    """The answer to what this broker merely hands on to the controller."""
    return await PASSED_ON[api_of_request(request).key].function(broker, context, request)


async def create(broker: Broker, name: str, partitions: int = 1) -> None:
    """Creates a topic and waits for it."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    reply = await broker.controller.submit(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
    assert reply.topics[0].error_code == 0
