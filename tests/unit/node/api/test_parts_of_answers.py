"""Parts of answers by themselves: each condition alone, and what is counted or waited for."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.stand_in import stand_in

from penstock.metadata.quotas.bucket import Bucket
from penstock.node.api import mutation_quota, producing
from penstock.node.api.broker.describe_log_dirs import _lag
from penstock.node.api.consumed import describe_holders
from penstock.node.api.consumed.committed_positions import _coordinates
from penstock.node.api.coordinated import take_out_unknown, with_ages, with_operations
from penstock.node.api.mutation_quota import limited
from penstock.node.api.partition_views import current_leader
from penstock.node.api.producing import Replicating
from penstock.node.serving.access import NOT_ASKED
from penstock.node.serving.session import NODE, Principal
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.describe_acls import DescribeAclsRequest
from penstock.protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from penstock.protocol.requests.own_apis import DescribeHoldersRequest
from penstock.protocol.schema import Message


def log(end: int, *, is_lent: bool = False) -> Any:
    return SimpleNamespace(log_end_offset=end, is_lent=is_lent)


def partition(high_watermark: int, told: int | None = None) -> Any:
    follower = None if told is None else SimpleNamespace(leader_high_watermark=told)
    return SimpleNamespace(high_watermark=high_watermark, follower=follower)


@pytest.mark.parametrize(
    ("of", "held", "future", "lag"),
    [
        (log(5, is_lent=True), None, None, -1),
        (log(5), None, log(3, is_lent=True), -1),
        (log(5, is_lent=True), None, log(3), -1),
        (log(5), None, log(3), 2),
        (log(5), partition(9), log(3), 2),
        (log(5), None, log(6), 0),
        (log(5), None, None, 0),
        (log(5), partition(9), None, 4),
        (log(5), partition(3), None, 0),
        (log(5), partition(9, 7), None, 2),
        (log(5), partition(9, 5), None, 0),
        (log(5), partition(0, 2), None, 0),
    ],
)
def test_what_a_log_lacks(of: Any, held: Any, future: Any, lag: int) -> None:
    assert _lag(of, held, future) == lag


@pytest.mark.parametrize("wrong", [None, "is_serving", "is_paused", "is_over", "may_lead"])
def test_a_shard_is_told_where_it_surely_is(wrong: str | None) -> None:
    hosted = SimpleNamespace(
        is_serving=wrong != "is_serving",
        is_paused=wrong == "is_paused",
        is_over=wrong == "is_over",
        partition="p",
    )
    broker = SimpleNamespace(may_lead=lambda partition: partition == "p" and wrong != "may_lead")
    assert _coordinates(cast("Any", broker), cast("Any", hosted)) is (wrong is None)


async def test_what_a_group_holds_of_what_is_led_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def led(index: int, start: int, leader: object | None = "leads") -> Any:
        segments = SimpleNamespace(bytes_from=lambda offset: 1000 * index + offset)
        return SimpleNamespace(
            index=index, leader=leader, log=SimpleNamespace(segments=segments, log_start_offset=start)
        )

    async def positions(topic_id: int) -> dict[str, dict[int, int]]:
        assert topic_id == 7
        return {"g": {0: 5, 1: 2, 2: 9}, "h": {}}

    broker = SimpleNamespace(
        image=SimpleNamespace(topics={"t": SimpleNamespace(topic_id=7)}),
        consumed=SimpleNamespace(positions=positions),
        partitions=SimpleNamespace(of_topic=lambda name: [led(0, 1), led(1, 3), led(2, 0, None)]),
    )
    answer = await describe_holders.describe_holders(
        cast("Any", broker), cast("Any", None), DescribeHoldersRequest(topic="t")
    )
    assert [
        (group.group_id, [(it.partition, it.offset, it.held_bytes) for it in group.partitions])
        for group in answer.groups
    ] == [("g", [(0, 5, 5), (1, 2, 1003)]), ("h", [(0, -1, 1), (1, -1, 1003)])]


@pytest.mark.parametrize(
    ("asks", "code", "told"),
    [
        (True, ErrorCode.NONE, 9),
        (True, ErrorCode.GROUP_AUTHORIZATION_FAILED, NOT_ASKED),
        (False, ErrorCode.NONE, 0),
    ],
)
def test_what_may_be_done_is_told_who_asks(asks: bool, code: ErrorCode, told: int) -> None:
    group = SimpleNamespace(group_id="g", error_code=code, authorized_operations=0)
    context = SimpleNamespace(operations_on=lambda resource, name: 9 if name == "g" else 1)
    asked = with_operations(cast("Any", context), SimpleNamespace(include_authorized_operations=asks), [group])
    assert list(asked) == []
    assert group.authorized_operations == told


def test_members_are_as_old_as_is_known() -> None:
    members = [SimpleNamespace(member_id=name, heartbeat_age_ms=0) for name in "ab"]
    group = with_ages(SimpleNamespace(members=members), {"a": 5})
    assert [member.heartbeat_age_ms for member in group.members] == [5, -1]


@pytest.mark.parametrize(
    ("by_id", "name", "topic_id", "indexes", "left", "refused"),
    [
        (False, "t", 0, [0, 1], [0, 1], None),
        (False, "t", 0, [0, 7], [0], ([7], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)),
        (False, "u", 0, [0, 1], [], ([0, 1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)),
        (True, "", 5, [1], [1], None),
        (True, "t", 6, [1], [], ([1], ErrorCode.UNKNOWN_TOPIC_ID)),
        (False, "u", 5, [1], [], ([1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)),
    ],
)
def test_what_is_not_there_is_taken_out(
    by_id: bool, name: str, topic_id: int, indexes: list[int], left: list[int], refused: tuple[list[int], int] | None
) -> None:
    known = SimpleNamespace(name="t", partitions={0: None, 1: None})
    image = SimpleNamespace(topics={"t": known}, topics_by_id={UUID(int=5): known})
    topic = OffsetCommitRequestTopic(
        name=name,
        topic_id=UUID(int=topic_id),
        partitions=[OffsetCommitRequestPartition(partition_index=index) for index in indexes],
    )
    answer = take_out_unknown(cast("Any", SimpleNamespace(image=image)), topic, by_id=by_id)
    assert [it.partition_index for it in topic.partitions] == left
    assert topic.name == ("t" if left else name)
    found = (
        None if answer is None else ([it.partition_index for it in answer.partitions], answer.partitions[0].error_code)
    )
    assert found == refused


def test_a_leader_that_is_not_known() -> None:
    one = SimpleNamespace(partitions={0: SimpleNamespace(leader=3, leader_epoch=4)})
    image = cast("Any", SimpleNamespace(topics={"t": one}, topics_by_id={UUID(int=5): one}))
    assert current_leader(image, "t", 0) == (3, 4)
    assert current_leader(image, UUID(int=5), 0) == (3, 4)
    for topic, index in (("t", 1), ("u", 0), (UUID(int=6), 0)):
        assert current_leader(image, topic, index) == (-1, -1)


class Waits:
    """What an answer to produce waits for."""

    def __init__(self, name: str, *, waits: bool = True) -> None:
        self.name, self.waits, self.did = name, waits, list[object]()

    def begin(self, answer: object) -> bool:
        self.did.append("begins")
        return self.waits

    def refuse(self, code: ErrorCode) -> None:
        self.did.append(code)

    def cancel(self) -> None:
        self.did.append("is called off")


class Timer:
    def __init__(self) -> None:
        self.later: list[tuple[float, Any]] = []
        self.is_cancelled = False

    def call_later(self, delay_s: float, call: Any) -> Timer:
        self.later.append((delay_s, call))
        return self

    def cancel(self) -> None:
        self.is_cancelled = True


class Answering:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, timeout_ms: int, *pending: Waits) -> None:
        self.timer = Timer()
        monkeypatch.setattr(producing, "asyncio", stand_in(asyncio, get_running_loop=lambda: self.timer))
        refusals = SimpleNamespace(response=lambda answers: ["answer", *answers])
        self.it = Replicating(cast("Any", refusals), timeout_ms, cast("Any", ["a"]), cast("Any", pending))
        self.told: list[Any] = []
        self.it.listen(cast("Any", SimpleNamespace(told=self.told.append, failed=self.told.append)))


@pytest.mark.parametrize(("timeout_ms", "after_s"), [(1500, 1.5), (0, 0.0), (-7, 0.0)])
def test_who_waits_too_long_hears_so(monkeypatch: pytest.MonkeyPatch, timeout_ms: int, after_s: float) -> None:
    one, two, done = Waits("one"), Waits("two"), Waits("done", waits=False)
    answering = Answering(monkeypatch, timeout_ms, one, two, done)
    ((delay_s, time_out),) = answering.timer.later
    assert (delay_s, answering.it.is_over, answering.timer.is_cancelled) == (after_s, False, False)
    answering.it.answered(cast("Any", one))
    assert (answering.told, answering.it.is_over) == ([], False)
    time_out()
    assert answering.told == [["answer", "a"]]
    assert [it.did for it in (one, two, done)] == [
        ["begins"], ["begins", ErrorCode.REQUEST_TIMED_OUT, "is called off"], ["begins"],
    ]  # fmt: skip


def test_what_was_held_goes_on_and_the_last_one_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    held, as_one = Waits("held"), Waits("appended")
    answering = Answering(monkeypatch, 5, held)
    answering.it.goes_on(cast("Any", held), cast("Any", as_one))
    assert (as_one.did, answering.it.is_over, answering.told) == (["begins"], False, [])
    answering.it.answered(cast("Any", as_one))
    assert (answering.it.is_over, answering.told, answering.timer.is_cancelled) == (True, [["answer", "a"]], True)


def test_where_nothing_waits_it_is_over_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    answering = Answering(monkeypatch, 5, Waits("done", waits=False))
    assert (answering.it.is_over, answering.timer.is_cancelled) == (True, True)
    assert cast("Any", answering.it.response()) == ["answer", "a"]


NOW_MS = 1_000


class Mutating:
    """A client with a quota of ten partitions, of which one more comes in each second."""

    def __init__(self) -> None:
        self.bucket: Bucket | None = Bucket(1.0, 10.0, NOW_MS)
        self.asked: list[tuple[str, str]] = []
        self.submitted: list[Message] = []
        self.principal = Principal("User", "ada")
        self.client_id: str | None = "c"
        self.fails: BaseException | None = None

    def client(self, user: str, client_id: str, now_ms: int) -> Any:
        assert now_ms == NOW_MS
        self.asked.append((user, client_id))
        return SimpleNamespace(mutation=self.bucket)

    async def submit(self, request: Message) -> Any:
        self.submitted.append(request)
        if self.fails is not None:
            raise self.fails
        if not isinstance(request, CreateTopicsRequest):
            return "done"
        return CreateTopicsResponse(
            topics=[
                CreatableTopicResult(
                    name=it.name, error_code=ErrorCode.INVALID_TOPIC_EXCEPTION if "/" in it.name else 0
                )
                for it in request.topics
            ]
        )

    async def answer(self, request: Message, version: int = 6) -> Any:
        image = SimpleNamespace(topics={"t": SimpleNamespace(partitions=range(2))}, topics_by_id={})
        node = SimpleNamespace(config=SimpleNamespace(num_partitions=3), image=image)
        throttle = SimpleNamespace(machine=self, now_ms=lambda: NOW_MS)
        session = SimpleNamespace(principal=self.principal)
        context = SimpleNamespace(session=session, client_id=self.client_id, api_version=version)
        return await limited(cast("Any", node), cast("Any", throttle), cast("Any", context), self.submit)(request)

    @property
    def left(self) -> float:
        assert self.bucket is not None
        return self.bucket._left


def create(**topics: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name.replace("_", "/"), num_partitions=count) for name, count in topics.items()]
    )


@pytest.mark.parametrize(
    ("version", "topics", "told", "left", "throttle_ms"),
    [
        (6, {"a": 4}, [("a", 0)], 6, 0),
        (6, {"a": 10, "b": 1}, [("a", 0), ("b", 0)], -1, 0),
        (6, {"a": 11, "b": 1}, [("a", 0), ("b", 89)], -1, 1_000),
        (6, {"a": 12, "_": 5, "b": 1}, [("a", 0), ("/", 89), ("b", 89)], -2, 2_000),
        (6, {"_": 12, "b": 1}, [("/", 17), ("b", 89)], 10, 0),
        (6, {"a": -1}, [("a", 0)], 7, 0),
        (5, {"a": 11, "b": 1}, [("a", 0), ("b", 0)], -2, 2_000),
        (5, {"a": 4}, [("a", 0)], 6, 0),
    ],
)
async def test_what_a_client_may_still_do(
    version: int, topics: dict[str, int], told: list[tuple[str, int]], left: float, throttle_ms: int
) -> None:
    it = Mutating()
    answer = await it.answer(create(**topics), version)
    assert [(one.name, one.error_code) for one in answer.topics] == told
    assert (it.left, answer.throttle_time_ms, it.asked) == (left, throttle_ms, [("ada", "c")])
    assert it.bucket is not None
    assert it.bucket.throttled_ms == throttle_ms


async def test_who_owes_already_asks_nobody() -> None:
    it = Mutating()
    await it.answer(create(a=12))
    answer = await it.answer(create(b=1, c=2))
    assert ([one.error_code for one in answer.topics], answer.throttle_time_ms, len(it.submitted)) == (
        [89, 89],
        2_000,
        1,
    )
    answer = await it.answer(CreateTopicsRequest(topics=[]))
    assert (answer.topics, answer.throttle_time_ms, len(it.submitted)) == ([], 0, 2), "nothing was asked for"


async def test_what_fails_as_a_whole_is_given_back() -> None:
    it = Mutating()
    it.fails = asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        await it.answer(create(a=4, b=5))
    assert it.left == 10


@pytest.mark.parametrize("why", ["a node", "only looked at", "no mutation", "no limit"])
async def test_what_is_not_counted(why: str) -> None:
    it, request = Mutating(), cast("Message", create(a=4))
    if why == "a node":
        it.principal = NODE
    elif why == "only looked at":
        request = request.replace(validate_only=True)
    elif why == "no mutation":
        request = DescribeAclsRequest()
    else:
        it.bucket = None
    await it.answer(request)
    assert (it.submitted, it.asked) == ([request], [("ada", "c")] if why == "no limit" else [])
    assert it.bucket is None or it.left == 10


async def test_names_without_end_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation_quota, "MAX_NAME", 3)
    it = Mutating()
    it.principal, it.client_id = Principal("User", "adas"), None
    await it.answer(create(a=1))
    it.client_id = "client"
    await it.answer(create(a=1))
    assert it.asked == [("ada", ""), ("ada", "cli")]


async def test_partitions_that_are_added_are_counted() -> None:
    it = Mutating()

    async def submit(request: Message) -> Any:
        return SimpleNamespace(results=[], throttle_time_ms=0)

    it.submit = submit  # type: ignore[method-assign]
    added = [CreatePartitionsTopic(name="t", count=5), CreatePartitionsTopic(name="u", count=5)]
    await it.answer(CreatePartitionsRequest(topics=added), 3)
    assert it.left == 7
