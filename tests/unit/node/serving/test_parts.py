"""A large request is asked in parts, and its client sees one answer, as if it had been asked as a whole."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest
from tests.unit.node.served_node import serving

from penstock.node.serving.dispatch import Dispatcher, _heard
from penstock.node.serving.handler import BROKER_HANDLERS, Handler, load_handlers
from penstock.node.serving.outgoing import ResponsePart
from penstock.node.serving.parts import LONG, PART_ITEMS, in_parts, is_long, let_go, long_arrays
from penstock.node.serving.rules import NOTHING
from penstock.node.serving.slices import Slices, Steps
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from penstock.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from penstock.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
    TopicResponse,
)
from penstock.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from penstock.protocol.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    StateBatch,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateData,
    WriteStateResult,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import encode_request

TOPICS = (("topics", "topics"),)


class Answering:
    """Answers each partition, and notes how many things each part had."""

    def __init__(self) -> None:
        self.parts: list[int] = []

    def __call__(self, request: DescribeProducersRequest) -> DescribeProducersResponse:
        self.parts.append(sum(max(1, len(topic.partition_indexes)) for topic in request.topics))
        return DescribeProducersResponse(
            topics=[
                TopicResponse(
                    name=topic.name,
                    partitions=[PartitionResponse(partition_index=index) for index in topic.partition_indexes],
                )
                for topic in request.topics
            ]
        )


async def asked(answer: Any, request: Any, names: Any) -> Any:
    found = Slices().answer(in_parts(answer, request, names))
    return await found if hasattr(found, "__await__") else found


@pytest.mark.parametrize(
    "sizes",
    [(), (0,), (1,), (PART_ITEMS,), (PART_ITEMS + 1,), (3 * PART_ITEMS + 7,), (1,) * 120, (0,) * 70, (30, 30, 30),
     (10, 3 * PART_ITEMS, 10), (PART_ITEMS - 1, 2, PART_ITEMS)],
)  # fmt: skip
async def test_the_answer_is_that_to_the_whole_request(sizes: tuple[int, ...]) -> None:
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=f"t{n}", partition_indexes=list(range(size))) for n, size in enumerate(sizes)]
    )
    whole, in_some = Answering(), Answering()
    assert await asked(in_some, request, TOPICS) == whole(request)
    assert max(in_some.parts) <= PART_ITEMS
    assert sum(in_some.parts) == sum(whole.parts)
    assert len(in_some.parts) <= 2 * sum(whole.parts) // PART_ITEMS + 2, "parts are full where they can be"


async def test_what_is_answered_as_a_whole_is_not_cut() -> None:
    sizes = (3 * PART_ITEMS, *[1] * PART_ITEMS)
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=f"t{n}", partition_indexes=list(range(size))) for n, size in enumerate(sizes)]
    )
    whole, in_some = Answering(), Answering()
    assert await asked(in_some, request, (("topics.", "topics"),)) == whole(request)
    assert in_some.parts == [3 * PART_ITEMS + PART_ITEMS - 1, 1]


async def test_what_lies_deeper_is_asked_about_once() -> None:
    """Of one group, and of one topic in it, very many partitions."""
    asked_about: list[list[int]] = []

    def answer(request: OffsetFetchRequest) -> OffsetFetchResponse:
        found = []
        for group in request.groups:
            topics = []
            for topic in group.topics or ():
                asked_about.append(topic.partition_indexes)
                parts = [OffsetFetchResponsePartitions(partition_index=index) for index in topic.partition_indexes]
                topics.append(OffsetFetchResponseTopics(name=topic.name, partitions=parts))
            found.append(OffsetFetchResponseGroup(group_id=group.group_id, topics=topics))
        return OffsetFetchResponse(groups=found)

    topic = OffsetFetchRequestTopics(name="t", partition_indexes=list(range(3 * PART_ITEMS)))
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[topic])])
    whole = answer(request)
    asked_about.clear()
    assert await asked(answer, request, (("groups", "groups"),)) == whole
    assert asked_about == [list(range(begin, begin + PART_ITEMS)) for begin in range(0, 3 * PART_ITEMS, PART_ITEMS)]


async def test_what_has_one_answer_is_asked_about_as_a_whole() -> None:
    seen: list[list[int]] = []

    def answer(request: WriteShareGroupStateRequest) -> WriteShareGroupStateResponse:
        results = []
        for topic in request.topics:
            seen.append([len(it.state_batches) for it in topic.partitions])
            parts = [PartitionResult(partition=it.partition) for it in topic.partitions]
            results.append(WriteStateResult(topic_id=topic.topic_id, partitions=parts))
        return WriteShareGroupStateResponse(results=results)

    partitions = [PartitionData(partition=n, state_batches=[StateBatch()] * 30) for n in range(PART_ITEMS + 2)]
    request = WriteShareGroupStateRequest(group_id="g", topics=[WriteStateData(partitions=partitions)])
    whole = answer(request)
    seen.clear()
    names = load_handlers(BROKER_HANDLERS)[ApiKey.WRITE_SHARE_GROUP_STATE].parts
    assert await asked(answer, request, names) == whole
    assert seen == [[30] * PART_ITEMS, [30] * 2]


async def test_a_topic_that_is_named_twice_is_answered_twice() -> None:
    topic = TopicRequest(name="t", partition_indexes=list(range(PART_ITEMS)))
    request = DescribeProducersRequest(topics=[topic, topic])
    assert await asked(Answering(), request, TOPICS) == Answering()(request)


@pytest.mark.parametrize(("groups", "topics", "partitions"), [(1, 1, LONG), (1, LONG, 1), (LONG, 0, 0), (20, 20, 1)])
def test_an_answer_is_long_however_deep_its_items_lie(groups: int, topics: int, partitions: int) -> None:
    part = [OffsetFetchResponsePartitions()] * partitions
    group = OffsetFetchResponseGroup(topics=[OffsetFetchResponseTopics(partitions=part)] * topics)
    assert is_long(OffsetFetchResponse(groups=[group] * groups)) is (groups * (1 + topics * (1 + partitions)) > LONG)
    assert not is_long(OffsetFetchResponse(groups=[group.replace(topics=[])] * 3))


async def test_names_alone_and_answers_that_wait() -> None:
    async def answer(request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=name) for name in request.groups_names])

    names = [f"g{n}" for n in range(3 * PART_ITEMS)]
    response = await asked(answer, DeleteGroupsRequest(groups_names=names), (("groups_names", "results"),))
    assert [result.group_id for result in response.results] == names


async def test_an_error_about_all_of_a_part_is_the_answer() -> None:
    answers = iter([ErrorCode.NONE, ErrorCode.NOT_COORDINATOR, ErrorCode.NONE])
    partitions = [OffsetDeleteRequestPartition(partition_index=n) for n in range(3 * PART_ITEMS)]
    request = OffsetDeleteRequest(topics=[OffsetDeleteRequestTopic(name="t", partitions=partitions)])
    response = await asked(lambda _: OffsetDeleteResponse(error_code=next(answers)), request, TOPICS)
    assert response == OffsetDeleteResponse(error_code=ErrorCode.NOT_COORDINATOR)


@pytest.mark.parametrize("is_sliced", [True, False])
async def test_objects_of_a_large_request_are_freed_by_a_thread(
    monkeypatch: pytest.MonkeyPatch, *, is_sliced: bool
) -> None:
    freed: list[list[Any]] = []
    is_freed = threading.Event()

    def watched(arrays: list[list[Any]]) -> None:
        assert threading.current_thread() is not threading.main_thread()
        freed.append(arrays.pop())
        is_freed.set()

    def answer(asked: DescribeConfigsRequest) -> DescribeConfigsResponse:
        results = [DescribeConfigsResult(resource_name=one.resource_name) for one in asked.resources]
        return DescribeConfigsResponse(results=results)

    def at_once(node: object, context: object, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        return answer(request)

    def in_steps(node: object, context: object, request: DescribeConfigsRequest) -> Steps[DescribeConfigsResponse]:
        yield None
        return answer(request)

    monkeypatch.setattr("penstock.node.serving.dispatch.let_go", watched)
    handler = Handler(ApiKey.DESCRIBE_CONFIGS, 4, 4, in_steps if is_sliced else at_once, NOTHING)
    resources = [DescribeConfigsResource(resource_type=2, resource_name=f"topic-{n}") for n in range(10_000)]
    async with serving(handler) as node:
        client = await node.connect()
        client.writer.write(encode_request(DescribeConfigsRequest(resources=resources), 4, 7, "c"))
        await client.receive(ApiKey.DESCRIBE_CONFIGS, 4)
        while len(freed) < 2:
            assert await asyncio.to_thread(is_freed.wait, 30)
            is_freed.clear()
    array_and_argument = 2
    assert {(type(array[0]), len(array)) for array in freed} == {
        (DescribeConfigsResource, 10_000),
        (DescribeConfigsResult, 10_000),
    }
    assert all(sys.getrefcount(array[0]) == array_and_argument for array in freed), "nobody else holds them"


def test_they_are_freed_a_few_at_a_time() -> None:
    message = DescribeConfigsResponse(results=[DescribeConfigsResult(resource_name=str(n)) for n in range(1_000)])
    arrays = long_arrays(message)
    assert [len(array) for array in arrays] == [1_000]
    assert arrays[0] is not message.results, "the message may be somebody else's as well"
    let_go(arrays)
    assert arrays == []
    assert len(message.results) == 1_000


def test_an_answer_that_is_never_ended_asks_for_no_thread() -> None:
    """As one whose process was killed in a simulation, or whose event loop is gone."""
    kept: list[list[list[object]]] = []

    async def answer(items: list[list[object]]) -> list[ResponsePart]:
        kept.append(items)
        items.append([1])
        await asyncio.sleep(0)
        return []

    answering = Dispatcher.__new__(Dispatcher)._apart(answer)
    answering.send(None)
    answering.close()
    assert kept == [[]]


async def test_what_went_wrong_for_a_client_that_has_gone_is_nobody_elses_to_hear_of() -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, complaint: complaints.append(complaint))
    for is_cancelled in (True, False):
        whole: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        whole.add_done_callback(_heard)
        if is_cancelled:
            whole.cancel()
        else:
            whole.set_exception(ValueError("wrong"))
        await asyncio.sleep(0)
        del whole
    assert complaints == []
