"""Each API that asks rights on topics, against Kafka: lowest and newest version, each right absent or granted, the
topic there or not, by its name and by its id. `topic_rights.py` has the table; it may leave out nothing.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

import pytest
from tests.unit.controller.cluster import active_controller, carry_out, create
from tests.unit.node.api.asked import Recording
from tests.unit.node.api.topic_rights import BY_NAME, GROUP, NO_ID, NO_NAME, ROWS, TOPIC, WELL, Came, Row
from tests.unit.node.group_node import FLIGHTS_ID, GroupNode, with_topics
from tests.unit.node.on_disk import PEER

from penstock.controller.controller import Controller
from penstock.log.log_slice import LogSlice
from penstock.metadata.features import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from penstock.metadata.image import PartitionImage
from penstock.metadata.records import FeatureLevelRecord
from penstock.node.api.commands import HANDED_ON
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.replicas import LocalReplicas
from penstock.node.serving.dispatch import Dispatcher, Waiting
from penstock.node.serving.handler import BROKER_HANDLERS, CONTROLLER_HANDLERS, RequestContext, load_handlers
from penstock.node.serving.rules import judged
from penstock.node.serving.slices import Slices
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import consumer_group_describe, share_group_describe, streams_group_describe
from penstock.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from penstock.protocol.messages.share_fetch import ShareFetchRequest
from penstock.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from penstock.protocol.requests.api import AnyApiKey, ApiKey, OwnApiKey
from penstock.protocol.requests.framing import api_of_request, decode_response, encode_request
from penstock.protocol.schema import Message
from penstock.protocol.uuids import ZERO_UUID

UNKNOWN_ID: Final = UUID(int=99)
ANSWERED_WHOLE: Final = (
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    OwnApiKey.DESCRIBE_HOLDERS,
)
"""Nothing in their answers is about one topic."""
REFUSALS: Final = {int(code) for code in ErrorCode if code.name.endswith("AUTHORIZATION_FAILED")}
OF_WHAT_IS_KEPT: Final[dict[AnyApiKey, str]] = {
    ApiKey.INIT_PRODUCER_ID: "tests/unit/node/api/test_rules.py",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "tests/unit/node/api/test_topic_rights.py",
    ApiKey.SHARE_GROUP_DESCRIBE: "tests/unit/node/api/test_topic_rights.py",
    ApiKey.STREAMS_GROUP_DESCRIBE: "tests/unit/node/api/test_topic_rights.py",
    ApiKey.DESCRIBE_TRANSACTIONS: "tests/unit/node/api/transactions/test_rights.py",
    OwnApiKey.DESCRIBE_GROUP_HISTORY: "tests/unit/node/api/test_consumer_group_rights.py",
}
"""Their requests name no topics: where what is told of topics is tested."""


class Asked:
    """A broker that leads "flights" and coordinates all groups, or a controller that knows it."""

    def __init__(self, node: GroupNode, controller: Controller) -> None:
        self.node = node
        self.controller = controller

    async def ask(self, row: Row, request: Message, authorizer: Recording) -> Message:
        if row.key in HANDED_ON:
            return await self._of_controller(row, request, authorizer)
        if row.key == ApiKey.SHARE_ACKNOWLEDGE:
            opened = ShareFetchRequest(group_id="sharers", member_id="ann")
            await self.of_broker(opened, row.version, Recording())
        if row.key == ApiKey.DELETE_SHARE_GROUP_OFFSETS:
            for epoch in (0, -1):  # a group of which nobody is a member any more
                beat = ShareGroupHeartbeatRequest(
                    group_id="sharers", member_id="ann", member_epoch=epoch, subscribed_topic_names=["flights"]
                )
                await self.of_broker(beat, 1, Recording())
        return await self.of_broker(request, row.version, authorizer)

    async def commit(self) -> None:
        """So that there is a group "readers"."""
        (row,) = [row for row in ROWS if row.key == ApiKey.OFFSET_COMMIT and row.version == 9]
        await self.of_broker(row.build("flights", ZERO_UUID), row.version, Recording())

    async def of_broker(self, request: Message, version: int, authorizer: Recording) -> Message:
        self.node.broker.authorizer = authorizer
        dispatcher = Dispatcher(self.node.broker)
        parts = dispatcher.dispatch(memoryview(bytearray(encode_request(request, version, 1, "test")))[4:], PEER)
        if isinstance(parts, Waiting):
            parts = dispatcher.encode(parts.handler, parts.context, await parts.answer)
        frame = b"".join(part.read() if isinstance(part, LogSlice) else part for part in parts)
        return decode_response(api_of_request(request).key, version, frame[4:])[1]

    async def _of_controller(self, row: Row, request: Message, authorizer: Recording) -> Message:
        handler = load_handlers(CONTROLLER_HANDLERS)[row.key]
        context = RequestContext(row.key, row.version, 1, "test", PEER, authorizer)
        node = SimpleNamespace(image=self.controller.image, slices=Slices())
        answer = judged(handler.rule, lambda left: self.controller.decide(left, 0).reply, node, context, request)
        found: Message = await answer if hasattr(answer, "__await__") else answer
        return decode(type(found), row.version, encode(found, row.version))[0]

    def topic_id(self, row: Row) -> UUID:
        return self.controller.image.topics["flights"].topic_id if row.key in HANDED_ON else FLIGHTS_ID


@pytest.fixture
async def asked(tmp_path: Path) -> AsyncIterator[Asked]:
    node = with_topics(GroupNode(tmp_path))
    node.broker.handlers = load_handlers()
    levels = [
        FeatureLevelRecord(name=name, feature_level=1) for name in (GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION)
    ]
    node.tell(*levels)
    partition = IsrPartition(node.open_log(0, "flights"), FLIGHTS_ID)
    partition.obey(1, PartitionImage(1, 0, 0, (1,), (1,)), 0)
    node.table.held["flights", 0] = node.table.held[FLIGHTS_ID, 0] = partition
    node.broker.replicas = cast("LocalReplicas", SimpleNamespace(on_log_start_moved=lambda _: None))
    refused = CreatableTopicResult(name="nowhere", error_code=ErrorCode.INVALID_REPLICATION_FACTOR)
    node.controller.reply.set_result(CreateTopicsResponse(topics=[refused]))
    await node.ready()
    controller = active_controller()
    carry_out(controller, create("flights"))
    found = Asked(node, controller)
    await found.commit()
    yield found
    await node.broker.stop_sharing()
    del node.table.held[FLIGHTS_ID, 0]
    await node.stop()


def codes(message: Any) -> Iterator[int]:
    for name in message.__fields__:
        value = getattr(message, name)
        if name.endswith("error_code") and value:
            yield value
        for part in value if isinstance(value, list) else (value,):
            if isinstance(part, Message):
                yield from codes(part)


def expected(row: Row, came: Came, request: Message, place: int) -> ErrorCode | None:
    is_nameless = row.how != BY_NAME and came.no_id is NO_ID and request == row.build("", ZERO_UUID)
    return row.nameless if is_nameless else came[place]


def check(answer: Message, came: ErrorCode | None, case: str) -> None:
    found = set(codes(answer))
    if came is WELL:
        assert not found & {*REFUSALS, NO_NAME, NO_ID}, case
    else:
        assert found == {came}, case


class Case(NamedTuple):
    topic: str
    """By which a right is asked."""
    said: str
    """What the request says, and the answer as well: the name or the id."""
    request: Message
    place: int
    """Where `Came` has what comes of it."""


def cases(row: Row, asked: Asked) -> list[Case]:
    if row.how == BY_NAME:
        return [Case(name, name, row.build(name, ZERO_UUID), at) for at, name in enumerate(("flights", "nowhere"))]
    ids = ("flights", asked.topic_id(row), 0), ("nowhere", UNKNOWN_ID, 2), ("nowhere", ZERO_UUID, 2)
    return [Case(name, str(topic_id), row.build("", topic_id), place) for name, topic_id, place in ids]


def names(row: Row) -> str:
    return f"{row.key.name}-{row.version}-{row.how}-{row.build.__name__}"


@pytest.mark.parametrize("row", ROWS, ids=names)
async def test_about_one_topic_kafkas_answer_is_given(asked: Asked, row: Row) -> None:
    questions: dict[str, None] = {}
    for topic, said, request, place in cases(row, asked):
        free = Recording(*row.instead)
        check(
            await asked.ask(row, request, free), expected(row, row.granted, request, place), f"{topic} with all rights"
        )
        questions |= dict.fromkeys(question.replace(topic, "{}") for question in free.asked)
        for right, came in row.refused.items():
            without = Recording(right.format(topic), *row.instead)
            answer, code = await asked.ask(row, request, without), expected(row, came, request, place)
            check(answer, code, f"{topic} without {right}")
            is_told_apart = " TOPIC " in right and row.key not in ANSWERED_WHOLE
            assert code is WELL or not is_told_apart or said in repr(answer), f"{topic} without {right}"
    assert questions.keys() == {*row.refused, *row.instead, *row.told}


@pytest.mark.parametrize("row", [row for row in ROWS if row.how == BY_NAME], ids=names)
async def test_a_refusal_does_not_say_whether_the_topic_is_there(asked: Asked, row: Row) -> None:
    for right, came in row.refused.items():
        if came.there is not came.no_name:
            continue  # who has the other right may know
        there, missing = [
            repr(await asked.ask(row, request, Recording(right.format(topic), *row.instead)))
            for topic, _, request, _ in cases(row, asked)
        ]
        assert there.replace("flights", "nowhere") == missing, right


@pytest.mark.parametrize("row", [row for row in ROWS if row.how != BY_NAME], ids=names)
async def test_a_refusal_does_not_say_the_name_of_an_id(asked: Asked, row: Row) -> None:
    topic, _, request, _ = cases(row, asked)[0]
    for right in row.refused:
        told = "flights" in repr(await asked.ask(row, request, Recording(right.format(topic), *row.instead)))
        assert told is (row.tells_name and right == [*row.refused][-1]), right


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.key in (ApiKey.PRODUCE, ApiKey.FETCH) and row.how == BY_NAME], ids=names
)
async def test_a_topic_without_a_name_is_refused_unlooked(asked: Asked, row: Row) -> None:
    answer = await asked.ask(row, row.build("", ZERO_UUID), Recording(everything=True))
    check(answer, TOPIC, "no name")
    assert "records=None" not in repr(answer), "clients do not expect that"


def test_each_api_that_asks_rights_on_topics_has_its_rows() -> None:
    controllers = load_handlers(CONTROLLER_HANDLERS)
    of_clients = {
        key: handler
        for key, handler in load_handlers(BROKER_HANDLERS).items()
        if any(
            re.search(r"\bTOPIC\b", str(it)) for it in (controllers if key in HANDED_ON else {key: handler})[key].rule
        )
    }
    assert of_clients.keys() == {*(int(row.key) for row in ROWS), *map(int, OF_WHAT_IS_KEPT)}
    for key, handler in of_clients.items():
        versions = {row.version for row in ROWS if row.key == key}
        assert not versions or {handler.lowest, handler.newest} <= versions, handler.api_key
    assert all(Path(path).is_file() for path in OF_WHAT_IS_KEPT.values())


def shared(group_id: str) -> share_group_describe.DescribedGroup:
    """A group with a member that has a partition: nothing is shared out where no share coordinator is."""
    of = share_group_describe
    assignment = of.Assignment(topic_partitions=[of.TopicPartitions(topic_name="flights", partitions=[0])])
    return of.DescribedGroup(group_id=group_id, members=[of.Member(member_id="ann", assignment=assignment)])


def run_by_streams(group_id: str) -> streams_group_describe.DescribedGroup:
    """With a topology that reads `flights`, and a member."""
    of = streams_group_describe
    reads = of.Subtopology(subtopology_id="0", source_topics=["flights"])
    return of.DescribedGroup(
        group_id=group_id, topology=of.Topology(subtopologies=[reads]), members=[of.Member(member_id="ann")]
    )


async def joined(asked: Asked) -> None:
    (*_, row) = [row for row in ROWS if row.key == ApiKey.CONSUMER_GROUP_HEARTBEAT]
    answer: Any = await asked.of_broker(row.build("flights", ZERO_UUID), row.version, Recording())
    assert answer.assignment.topic_partitions, "else no topic would be told"


GROUPS: Final = [
    (consumer_group_describe.ConsumerGroupDescribeRequest, 0),
    (consumer_group_describe.ConsumerGroupDescribeRequest, 1),
    (share_group_describe.ShareGroupDescribeRequest, 1),
    (streams_group_describe.StreamsGroupDescribeRequest, 0),
    (streams_group_describe.StreamsGroupDescribeRequest, 1),
]


@pytest.mark.parametrize(("layout", "version"), GROUPS)
async def test_a_group_with_a_topic_that_one_may_not_know_of_is_not_described(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, layout: Any, version: int
) -> None:
    await joined(asked)
    machine = asked.node.groups.find("readers").machine
    monkeypatch.setattr(type(machine), "describe_share_group", lambda _, group_id: shared(group_id))
    monkeypatch.setattr(type(machine), "describe_streams_group", lambda _, group_id, **__: run_by_streams(group_id))
    for missing, told in (((), 0), (("DESCRIBE TOPIC flights",), TOPIC), (("DESCRIBE GROUP readers",), GROUP)):
        request = layout(group_ids=["readers"], include_authorized_operations=True)
        answer: Any = await asked.of_broker(request, version, Recording(*missing))
        (found,) = answer.groups
        assert (found.error_code, len(found.members), found.authorized_operations >= 0) == (told, not told, not told)
        assert ("flights" in repr(answer)) is (not told)
