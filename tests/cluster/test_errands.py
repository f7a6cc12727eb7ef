"""A machine has things done elsewhere: by other leaders, by the controller, in a thread; and shortens its log."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.nodes_in_a_loop import BOTH, Nodes, nodes
from tests.unit.coordinator.tally import Tally
from tests.wire.raw_client import batch_of, produce_request

from penstock.client.admin.topics import NewTopic
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.coordinator.effects import Calculation, Job, ToController, ToLeader
from penstock.node.assembly.start import RunningNode
from penstock.node.controlling.broker_context import BrokerContext
from penstock.node.coordinators.errands import Errands, Tell
from penstock.node.coordinators.hosted import Hosted
from penstock.node.environment.alarm import Turns
from penstock.node.partitions.partition import Partition
from penstock.protocol.compression import Compression
from penstock.protocol.errors import ErrorCode
from penstock.protocol.hashing import coordinator_partition
from penstock.protocol.internal_topics import CONSUMER_OFFSETS
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from penstock.protocol.messages.produce import ProduceResponse

HERE, THERE = 1, 2


class Watched(Errands):
    """Tells when a job is done, though the machine may not hear of it yet."""

    def __init__(self, node: RunningNode) -> None:
        context = BrokerContext(node.parts.context, node.parts.channel, node.broker.lease)
        super().__init__(context, node.parts.links.to_broker)
        self.has_returned = asyncio.Event()

    async def done(self, job: Job, *tell: Tell) -> Any:
        try:
            return await super().done(job, *tell)
        finally:
            self.has_returned.set()


class Errant(Hosted[Tally]):
    def fetch(self, job: Job) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = self.ask(self.machine.fetch, job)
        return answer


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Nodes]:
    async with nodes(tmp_path, {HERE: BOTH, THERE: "broker"}) as running:
        async with running.admin() as admin:
            for name, node in (("here", HERE), ("there", THERE)):
                await admin.topics.create(NewTopic(name=name, assignments={0: [node]}))
        await running.until_everywhere(lambda image: {"here", "there"} <= image.topics.keys())
        yield running


@pytest.fixture
def errands(cluster: Nodes) -> Watched:
    return Watched(cluster.running[HERE])


@pytest.fixture
async def hosted(cluster: Nodes, errands: Watched) -> AsyncIterator[Errant]:
    """A machine on `here`, as a coordinator's host begins it."""
    machine = Errant(partition(cluster, HERE, "here"), Tally(), Turns(lambda: 0), Compression.NONE, errands)
    await machine.read()
    await machine.take_over()
    yield machine
    machine.resign()
    await errands.stop()


def partition(cluster: Nodes, node_id: int, topic: str) -> Partition:
    found = cluster.running[node_id].broker.partitions.get(topic, 0)
    assert found is not None
    return found


def marker(cluster: Nodes) -> ToLeader:
    request = produce_request("there", batch_of(b"a marker"))
    request.topic_data[0].topic_id = cluster.image(HERE).topics["there"].topic_id
    return ToLeader("there", 0, request, ProduceResponse)


async def test_another_log_is_written_to(cluster: Nodes, hosted: Errant) -> None:
    answer = await hosted.fetch(marker(cluster))
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert partition(cluster, THERE, "there").log.log_end_offset == 1


async def test_another_machine_is_asked(cluster: Nodes, hosted: Errant) -> None:
    async with cluster.admin() as admin:
        await admin.groups.set_offsets("readers", {TopicPartition("here", 0): OffsetAndMetadata(7)})
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="readers", topics=None)])
    job = ToLeader(CONSUMER_OFFSETS, coordinator_partition("readers", 5), request, OffsetFetchResponse)
    answer = await hosted.fetch(job)
    assert answer.groups[0].topics[0].partitions[0].committed_offset == 7


async def test_a_topic_is_created(cluster: Nodes, hosted: Errant) -> None:
    topic = CreatableTopic(name="new", num_partitions=2, replication_factor=1)
    answer = await hosted.fetch(ToController(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse))
    assert answer.topics[0].error_code == ErrorCode.NONE
    await cluster.until_everywhere(lambda image: "new" in image.topics)


async def test_a_calculation_is_done_in_a_thread(hosted: Errant) -> None:
    assert await hosted.fetch(Calculation(threading.get_ident)) != threading.get_ident()


async def test_a_fault_of_our_own_is_an_answer_as_well(hosted: Errant) -> None:
    assert await hosted.fetch(Calculation(lambda: 1 // 0)) is ErrorCode.UNKNOWN_SERVER_ERROR


async def test_a_broker_that_is_gone_and_a_topic_that_is_none_are_told(cluster: Nodes, hosted: Errant) -> None:
    job = marker(cluster)
    assert (await hosted.fetch(job)).responses
    await cluster.stop(THERE)
    assert await hosted.fetch(job) in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.LEADER_NOT_AVAILABLE)
    assert await hosted.fetch(job.replace(topic="nowhere")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_what_it_brings_waits_while_the_machine_is_let_alone(hosted: Errant, errands: Watched) -> None:
    answer = hosted.fetch(Calculation(lambda: 4))
    hosted.pause()
    await errands.has_returned.wait()
    assert not answer.done()
    hosted.go_on()
    assert await answer == 4


async def test_one_that_is_under_way_when_the_machine_ends_brings_nothing(hosted: Errant, errands: Watched) -> None:
    begun, done = threading.Event(), threading.Event()

    def calculate() -> None:
        begun.set()
        done.wait()

    answer = hosted.fetch(Calculation(calculate))
    await asyncio.to_thread(begun.wait)
    hosted.resign()
    assert await answer is ErrorCode.NOT_COORDINATOR
    done.set()
    await errands.has_returned.wait()


async def test_the_log_begins_where_all_is_written_anew(hosted: Errant) -> None:
    assert [hosted.ask(hosted.machine.add, "a", 1) for _ in range(3)] == [1, 2, 3]
    assert hosted.ask(hosted.machine.rewrite) is ErrorCode.NONE
    log = hosted.partition.log
    assert (log.log_start_offset, log.log_end_offset) == (3, 4)
