"""CreateTopics, DeleteTopics and CreatePartitions by their handlers, in every version; what they decide is proved
elsewhere."""

import asyncio
from pathlib import Path

import pytest
from tests.unit.node.gated_log import GatedLog
from tests.unit.node.metadata_node import context, create, handed_on, start_broker

from penstock.metadata.records import RegisterBrokerRecord
from penstock.node.controlling.topic_creation import creatable
from penstock.node.roles.broker import Broker
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.internal_topics import CONSUMER_OFFSETS
from penstock.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState


def creation(name: str, *, timeout_ms: int = 0) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)


@pytest.fixture
async def broker(tmp_path: Path) -> Broker:
    return (await start_broker(str(tmp_path)))[0]


@pytest.mark.parametrize("version", range(2, 8))
async def test_create(broker: Broker, version: int) -> None:
    request, _ = decode(CreateTopicsRequest, version, encode(creation("flights"), version))
    response = await handed_on(broker, context(version), request)
    again = await handed_on(broker, context(version), request)
    for answer, code in ((response, 0), (again, ErrorCode.TOPIC_ALREADY_EXISTS)):
        (topic,) = decode(CreateTopicsResponse, version, encode(answer, version))[0].topics
        assert (topic.name, topic.error_code) == ("flights", code)
    assert len(broker.image.topics["flights"].partitions) == 2


@pytest.mark.parametrize("version", range(1, 7))
async def test_delete(broker: Broker, version: int) -> None:
    await create(broker, "flights")
    request = (
        DeleteTopicsRequest(topic_names=["flights"])
        if version < 6
        else DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=broker.image.topics["flights"].topic_id)])
    )
    request, _ = decode(DeleteTopicsRequest, version, encode(request, version))
    response = await handed_on(broker, context(version), request)
    (result,) = decode(DeleteTopicsResponse, version, encode(response, version))[0].responses
    assert (result.name, result.error_code) == ("flights", 0)
    assert broker.image.topics == {}


@pytest.mark.parametrize("version", range(4))
async def test_grow(broker: Broker, version: int) -> None:
    await create(broker, "flights")
    topics = [CreatePartitionsTopic(name=name, count=4, assignments=None) for name in ("flights", "nothing")]
    request, _ = decode(
        CreatePartitionsRequest, version, encode(CreatePartitionsRequest(topics=topics, timeout_ms=1000), version)
    )
    response = await handed_on(broker, context(version), request)
    results = decode(CreatePartitionsResponse, version, encode(response, version))[0].results
    assert [(r.name, r.error_code) for r in results] == [("flights", 0), ("nothing", 3)]
    assert list(broker.image.topics["flights"].partitions) == [0, 1, 2, 3]


async def stuck(tmp_path: Path) -> tuple[Broker, GatedLog]:
    broker, log = await start_broker(str(tmp_path))
    log.started.clear()
    log.open.clear()
    return broker, log


async def test_what_is_not_committed_in_time_is_answered_and_may_still_come(tmp_path: Path) -> None:
    broker, log = await stuck(tmp_path)
    response = await handed_on(broker, context(7), creation("flights", timeout_ms=1))
    assert response.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    log.open.set()
    await create(broker, "delays")
    assert list(broker.image.topics) == ["flights", "delays"]


async def test_a_timeout_of_nothing_waits(tmp_path: Path) -> None:
    broker, log = await stuck(tmp_path)
    waiting = asyncio.ensure_future(handed_on(broker, context(7), creation("flights", timeout_ms=0)))
    await asyncio.to_thread(log.started.wait, 30)
    assert not waiting.done()
    log.open.set()
    assert (await waiting).topics[0].error_code == 0


async def test_internal_topics_have_no_more_replicas_than_there_are_brokers_unless_somebody_says_so(
    tmp_path: Path,
) -> None:
    broker, _ = await start_broker(str(tmp_path))
    del broker.config.static["offsets.topic.replication.factor"]
    broker.config.offsets_topic_replication_factor = 3
    assert creatable(CONSUMER_OFFSETS, broker.config, broker.image).replication_factor == 1
    broker.image.apply(RegisterBrokerRecord(broker_id=2, broker_epoch=9, fenced=True))
    assert creatable(CONSUMER_OFFSETS, broker.config, broker.image).replication_factor == 2
    broker.config.static["offsets.topic.replication.factor"] = "3"
    assert creatable(CONSUMER_OFFSETS, broker.config, broker.image).replication_factor == 3
    assert creatable("of a user", broker.config, broker.image).replication_factor == -1


async def test_alone_the_controller_says_that_there_are_too_few_brokers(broker: Broker) -> None:
    topic = CreatableTopic(name="copied", num_partitions=1, replication_factor=2)
    response = await handed_on(broker, context(7), CreateTopicsRequest(topics=[topic]))
    assert response.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
