"""What a client may create and delete: what is taken, refused and given back, by fields of each request."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from penstock.metadata.quotas.entities import MAX_NAME
from penstock.node.api import mutation_quota as module
from penstock.node.api.mutation_quota import EXCEEDED, MUTATIONS, _deleted, _key, limited
from penstock.node.serving.session import NODE
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from penstock.protocol.messages.list_groups import ListGroupsRequest
from penstock.protocol.requests.api import ApiKey

ID, OTHER_ID, NO_ID = UUID(int=7), UUID(int=8), UUID(int=0)
TOPIC = SimpleNamespace(partitions={0: None, 1: None})
IMAGE = SimpleNamespace(topics={"t": TOPIC}, topics_by_id={ID: SimpleNamespace(partitions=dict.fromkeys(range(5)))})
WHY = ErrorCode.INVALID_REPLICATION_FACTOR
LATE = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class Bucket:
    """Lets so much be taken; what is taken beyond is owed, a second for each."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.given: list[int] = []
        self.throttled_ms = 10

    def owed_ms(self, now_ms: int) -> int:
        assert now_ms == 77
        return max(0, -self.room) * 1_000

    def take(self, count: int, now_ms: int) -> None:
        assert now_ms == 77
        self.room -= count

    def give_back(self, count: int) -> None:
        self.given.append(count)
        self.room += count


class Made:
    def __init__(self, bucket: Bucket | None, *, version: int = 7) -> None:
        self.bucket = bucket
        self.submitted: list[Any] = []
        self.clients: list[Any] = []
        self.answer: Any = None
        machine = SimpleNamespace(client=self._client)
        self.throttle: Any = SimpleNamespace(machine=machine, now_ms=lambda: 77)
        node: Any = SimpleNamespace(config=SimpleNamespace(num_partitions=3), image=IMAGE)
        session = SimpleNamespace(principal=SimpleNamespace(name="ann"))
        self.context: Any = SimpleNamespace(session=session, client_id="c", api_version=version)
        self.ask = limited(node, cast("Any", self.throttle), cast("Any", self.context), self._submit)

    def _client(self, user: str, client_id: str, now_ms: int) -> Any:
        self.clients.append((user, client_id, now_ms))
        return SimpleNamespace(mutation=self.bucket)

    async def _submit(self, request: Any) -> Any:
        self.submitted.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is not None:
            return self.answer
        return CreateTopicsResponse(topics=[CreatableTopicResult(name=one.name) for one in request.topics])


def creating(**counts: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=count) for name, count in counts.items()]
    )


def told(answer: Any) -> list[tuple[str, int]]:
    return [(one.name, one.error_code) for one in answer.topics]


@pytest.mark.parametrize(
    ("topic", "count"),
    [
        ("t", 2),
        ("u", 0),
        (DeleteTopicState(name="t", topic_id=NO_ID), 2),
        (DeleteTopicState(name="u", topic_id=ID), 0),
        (DeleteTopicState(name=None, topic_id=ID), 5),
        (DeleteTopicState(name=None, topic_id=OTHER_ID), 0),
    ],
)
def test_what_is_deleted(topic: Any, count: int) -> None:
    assert _deleted(cast("Any", SimpleNamespace(image=IMAGE)), topic) == count


@pytest.mark.parametrize(
    ("topic", "key"),
    [
        ("t", "t"),
        (CreatableTopic(name="t"), "t"),
        (DeleteTopicState(name="t", topic_id=NO_ID), "t"),
        (DeleteTopicState(name="t", topic_id=ID), "t"),
        (DeleteTopicState(name=None, topic_id=ID), ID),
        (DeleteTopicState(name=None, topic_id=NO_ID), None),
    ],
)
def test_what_a_topic_is_called(topic: Any, key: object) -> None:
    assert _key(topic) == key


@pytest.mark.parametrize(
    ("api", "version"), [(ApiKey.CREATE_TOPICS, 6), (ApiKey.DELETE_TOPICS, 5), (ApiKey.CREATE_PARTITIONS, 3)]
)
def test_from_which_version_on_a_topic_is_refused(api: ApiKey, version: int) -> None:
    """As Kafka's KIP-599 says."""
    assert MUTATIONS[api].strict_since == version


async def test_what_goes_by_no_quota() -> None:
    made = Made(Bucket(-1))
    made.answer = "done"
    for request in (ListGroupsRequest(), creating(a=1).replace(validate_only=True)):
        assert await made.ask(request) == "done"
    assert made.clients == []
    made.context.session.principal = NODE
    assert await made.ask(creating(a=1)) == "done"
    assert made.clients == []
    without = Made(None)
    without.answer = "done"
    assert await without.ask(CreatePartitionsRequest()) == "done"
    assert without.clients == [("ann", "c", 77)]


async def test_names_of_clients_are_cut_as_quotas_cut_them() -> None:
    made = Made(None)
    made.context.session.principal.name = "a" * (MAX_NAME + 5)
    for client_id, known in (("c" * (MAX_NAME + 1), "c" * MAX_NAME), (None, "")):
        made.context.client_id = client_id
        await made.ask(creating(a=1))
        assert made.clients.pop() == ("a" * MAX_NAME, known, 77)


@pytest.mark.parametrize(
    ("room", "accepted", "left", "owed_ms"),
    [
        (9, "abc", 3, 0),
        (6, "abc", 0, 0),
        (5, "abc", -1, 0),
        (2, "ab", -1, 1_000),
        (0, "a", -1, 1_000),
        (-1, "", -1, 1_000),
    ],
)
async def test_who_owes_is_refused_the_rest(room: int, accepted: str, left: int, owed_ms: int) -> None:
    """It is told how long it waits where something is refused."""
    bucket = Bucket(room)
    made = Made(bucket, version=6)
    answer = await made.ask(creating(a=1, b=2, c=3))
    assert [one.name for request in made.submitted for one in request.topics] == list(accepted)
    late = [name for name in "abc" if name not in accepted]
    assert told(answer) == [*((name, 0) for name in accepted), *((name, LATE) for name in late)]
    assert [one.error_message for one in answer.topics[len(accepted) :]] == [EXCEEDED.message] * len(late)
    assert (bucket.room, bucket.given) == (left, [])
    assert (answer.throttle_time_ms, bucket.throttled_ms) == (owed_ms, 10 + owed_ms)


@pytest.mark.parametrize(("room", "owed_ms"), [(9, 0), (4, 2_000), (0, 6_000)])
async def test_older_clients_are_obeyed_and_wait(room: int, owed_ms: int) -> None:
    bucket = Bucket(room)
    made = Made(bucket, version=5)
    answer = await made.ask(creating(a=1, b=2, c=3))
    assert told(answer) == [("a", 0), ("b", 0), ("c", 0)]
    assert (bucket.room, answer.throttle_time_ms, bucket.throttled_ms) == (room - 6, owed_ms, 10 + owed_ms)


async def test_an_empty_request_is_asked_all_the_same() -> None:
    made = Made(Bucket(-1))
    assert told(await made.ask(creating())) == []
    assert len(made.submitted) == 1


async def test_what_is_refused_for_another_reason_is_given_back() -> None:
    bucket = Bucket(9)
    made = Made(bucket)
    results = [("a", 0), ("b", WHY), ("c", WHY), ("unknown", WHY)]
    made.answer = CreateTopicsResponse(
        topics=[CreatableTopicResult(name=name, error_code=int(code)) for name, code in results]
    )
    assert told(await made.ask(creating(a=1, b=2, c=3))) == results
    assert (bucket.room, bucket.given) == (8, [2, 3, 0])


async def test_what_was_taken_for_a_request_that_fails_is_given_back() -> None:
    bucket = Bucket(9)
    made = Made(bucket)
    made.answer = ValueError("no controller")
    with pytest.raises(ValueError, match="no controller"):
        await made.ask(creating(a=1, b=2))
    assert (bucket.room, sorted(bucket.given)) == (9, [1, 2])


async def test_topics_are_deleted_by_names_and_by_ids() -> None:
    bucket = Bucket(6)
    made = Made(bucket)
    made.answer = DeleteTopicsResponse(
        responses=[DeletableTopicResult(name="t"), DeletableTopicResult(name=None, topic_id=ID, error_code=int(WHY))]
    )
    states = [DeleteTopicState(name="t", topic_id=NO_ID), DeleteTopicState(name=None, topic_id=ID)]
    answer = await made.ask(DeleteTopicsRequest(topics=states, topic_names=["t", "u"]))
    (request,) = made.submitted
    assert (request.topics, request.topic_names) == (states, [])
    assert (bucket.room, bucket.given) == (4, [5])
    assert [(one.name, one.error_code) for one in answer.responses] == [("t", 0), (None, WHY), ("t", LATE), ("u", LATE)]


def test_a_topic_that_is_named_twice_is_taken_for_twice() -> None:
    bucket: Any = Bucket(9)
    node: Any = SimpleNamespace(config=SimpleNamespace(num_partitions=3), image=IMAGE)
    taking = module._Taking(node, Made(bucket).throttle, bucket, MUTATIONS[ApiKey.CREATE_TOPICS])
    for count in (1, 2):
        assert taking._takes(CreatableTopic(name="a", num_partitions=count), is_strict=True)
    taking._give_back(iter(["a", "a"]))
    assert bucket.given == [3, 0]
