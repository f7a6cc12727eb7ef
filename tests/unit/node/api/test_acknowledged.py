"""What members say of shared records: what is refused in which words, and how much is taken in a turn of the loop."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from penstock.node.api.share_groups import acknowledging
from penstock.node.api.share_groups.acknowledging import (
    Acknowledging,
    Telling,
    check_asker,
    is_wide,
    name_in_slices,
    named_in,
)
from penstock.node.serving.access import READ_TOPIC
from penstock.node.serving.slices import Slices
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.sharing.sessions import SessionKey, TopicPartition
from penstock.sharing.values import LONGEST_DELAY_MS, Acknowledgement

TOPIC, HIDDEN, NONE = (UUID(int=number) for number in (1, 2, 3))
NAMES = {TOPIC: "t", HIDDEN: "hidden"}


def batch(first: int, last: int, *types: int, delays: tuple[int, ...] = (), reason: str = "") -> Any:
    return Batch(first_offset=first, last_offset=last, acknowledge_types=list(types), release_delays_ms=list(delays))


class Batch(SimpleNamespace):
    reason = ""

    def replace(self, **changes: Any) -> Batch:
        return Batch(**{**vars(self), **changes})


def topics(*batches: list[Any]) -> list[Any]:
    return [
        SimpleNamespace(
            topic_id=TOPIC,
            partitions=[
                SimpleNamespace(partition_index=index, acknowledgement_batches=some)
                for index, some in enumerate(batches)
            ],
        )
    ]


def said(named: Any) -> list[tuple[int, list[tuple[int, int, int, int]]]]:
    return [
        (
            place.partition,
            [(it.first_offset, it.last_offset, len(it.acknowledge_types), len(it.release_delays_ms)) for it in some],
        )
        for place, some in named
    ]


@pytest.mark.parametrize(
    ("batches", "parts"),
    [
        ([], [[]]),
        ([batch(0, 9, 1)], [[(0, 9, 1, 0)]]),
        ([batch(0, 249, *[1] * 250)], [[(0, 249, 250, 0)]]),
        ([batch(0, 250, *[1] * 251)], [[(0, 249, 250, 0)], [(250, 250, 1, 0)]]),
        ([batch(5, 505, *[1] * 501, delays=(3,))], [[(5, 254, 250, 1)], [(255, 504, 250, 1)], [(505, 505, 1, 1)]]),
        ([batch(0, 299, 1, delays=(0,) * 300)], [[(0, 249, 1, 250)], [(250, 299, 1, 50)]]),
        ([batch(0, 299, *[1] * 300, delays=(0,) * 300)], [[(0, 249, 250, 250)], [(250, 299, 50, 50)]]),
        ([batch(0, 9, *[1] * 300)], [[(0, 9, 300, 0)]]),
        ([batch(0, 299, *[1] * 300, delays=(0,) * 299)], [[(0, 299, 300, 299)]]),
        ([batch(0, 0, *[1] * 300)], [[(0, 0, 300, 0)]]),
        ([batch(0, 0, *[1] * 300, delays=(0,) * 300)], [[(0, 0, 300, 300)]]),
        ([batch(0, 0, 1, delays=(0,) * 300)], [[(0, 0, 1, 300)]]),
        ([batch(0, 299, *[1] * 300, delays=(0,))], [[(0, 249, 250, 1)], [(250, 299, 50, 1)]]),
        ([batch(0, 0, 1)] * 100, [[(0, 0, 1, 0)] * 100]),
        ([batch(0, 0, 1)] * 101, [[(0, 0, 1, 0)] * 100, [(0, 0, 1, 0)]]),
        ([batch(0, 124, *[1] * 125)] * 3, [[(0, 124, 125, 0)] * 2, [(0, 124, 125, 0)]]),
        ([batch(0, 4, *[1] * 5)] * 51, [[(0, 4, 5, 0)] * 50, [(0, 4, 5, 0)]]),
    ],
)
def test_what_is_taken_at_once(batches: list[Any], parts: list[list[Any]]) -> None:
    assert said(named_in(topics(batches))) == [(0, part) for part in parts]


@pytest.mark.parametrize(
    ("partitions", "wide"),
    [
        ([[]] * 100, False),
        ([[]] * 101, True),
        ([[batch(0, 0, 1)] * 100], False),
        ([[batch(0, 0, 1)] * 100, []], True),
        ([[batch(0, 0, 1)] * 50, [batch(0, 0, 1)] * 50], False),
        ([[batch(0, 249, *[1] * 250)]], False),
        ([[batch(0, 250, *[1] * 251)]], True),
    ],
)
def test_which_requests_are_taken_in_slices(partitions: list[list[Any]], wide: bool) -> None:
    assert is_wide(topics(*partitions)) is wide


@pytest.mark.parametrize(
    ("partitions", "sizes"),
    [
        ([[]] * 99, [99]),
        ([[]] * 100, [100]),
        ([[]] * 201, [100, 100, 1]),
        ([[batch(0, 0, 1)]] * 51, [50, 1]),
        ([[batch(0, 0, 1)] * 98, [], []], [2, 1]),
        ([[batch(0, 0, 1)] * 99, [], []], [1, 2]),
        ([], []),
    ],
)
async def test_slices_of_a_request(partitions: list[list[Any]], sizes: list[int]) -> None:
    found: list[int] = []
    await name_in_slices(Slices(), topics(*partitions), lambda some: found.append(len(some)))
    assert found == sizes


@pytest.mark.parametrize(
    ("group_id", "member_id", "words"),
    [
        ("g", "m", None),
        ("", "m", None),
        ("g", "m" * 36, None),
        ("g", "m" * 37, "Invalid member id in the request."),
        ("g", "", "Invalid member id in the request."),
        ("g", None, "Invalid member id in the request."),
        (None, "m", "Invalid group id in the request."),
    ],
)
def test_who_asks(group_id: str | None, member_id: str | None, words: str | None) -> None:
    request = SimpleNamespace(group_id=group_id, member_id=member_id)
    if words is None:
        assert check_asker(request) == SessionKey(str(group_id), str(member_id))
    else:
        with pytest.raises(KafkaError, match=words) as refused:
            check_asker(request)
        assert refused.value.code == ErrorCode.INVALID_REQUEST


class Sharing:
    """Notes what is acknowledged; answers when somebody says so."""

    def __init__(self) -> None:
        self.said: list[tuple[Any, ...]] = []
        self.answer: list[Any] = []

    def acknowledge(self, key: SessionKey, place: TopicPartition, said: Any, answered: Any) -> None:
        self.said.append((key, place, said))
        self.answer.append(answered)


KEY = SessionKey("g", "m")


def acknowledging_by(sharing: Sharing, version: int = 2, *, is_renewal: bool = False) -> Acknowledging:
    broker = SimpleNamespace(topic_name=NAMES.get, sharing=sharing)
    context = SimpleNamespace(api_version=version, allows=lambda right, name: right == READ_TOPIC and name == "t")
    return Acknowledging(cast("Any", broker), cast("Any", context), KEY, is_renewal=is_renewal)


@pytest.mark.parametrize(
    ("batches", "why"),
    [
        ([batch(0, 0, 1)], None),
        ([batch(0, 5, 1), batch(5, 9, 2)], None),
        ([batch(0, 5, 1), batch(4, 9, 2)], "offsets 4 to 9 are not in order"),
        ([batch(-1, 5, 1)], None),
        ([batch(-2, 5, 1)], "offsets -2 to 5 are not in order"),
        ([batch(5, 4, 1)], "offsets 5 to 4 are not in order"),
        ([batch(0, 5)], "0 types for offsets 0 to 5"),
        ([batch(0, 2, 1, 2)], "2 types for offsets 0 to 2"),
        ([batch(0, 2, 1, 2, 3)], None),
        ([batch(5, 7, 1, 2, 3)], None),
        ([batch(5, 7, 1, 2)], "2 types for offsets 5 to 7"),
        ([batch(5, 7, 1, delays=(0, 0, 0))], None),
        ([batch(0, 0, -1)], "an unknown type of acknowledgement"),
        ([batch(0, 1, -1, 1)], "an unknown type of acknowledgement"),
        ([batch(0, 1, 1, -1)], "an unknown type of acknowledgement"),
        ([batch(0, 1, 5, 1)], "an unknown type of acknowledgement"),
        ([batch(0, 1, 1, 5)], "an unknown type of acknowledgement"),
        ([batch(0, 0, *[1] * 300)], "300 types for offsets 0 to 0"),
        ([batch(0, 0, 0)], None),
        ([batch(0, 0, 5)], "an unknown type of acknowledgement"),
        ([batch(0, 0, 4)], "the request does not say that it renews"),
        ([batch(0, 1, 3, 4)], "the request does not say that it renews"),
        ([batch(0, 2, 1, delays=(-1,))], None),
        ([batch(0, 2, 1, delays=(-1, 0, LONGEST_DELAY_MS))], None),
        ([batch(0, 2, 1, delays=(0, 0))], f"a delay for all records, or one for each, is -1 to {LONGEST_DELAY_MS} ms"),
        ([batch(0, 2, 1, delays=(-2,))], f"a delay for all records, or one for each, is -1 to {LONGEST_DELAY_MS} ms"),
        ([batch(0, 1, 1, delays=(-2, 0))], "a delay for all records, or one for each, is -1 to "),
        ([batch(0, 1, 1, delays=(0, LONGEST_DELAY_MS + 1))], "a delay for all records, or one for each, is -1 to "),
        ([batch(0, 0, 1, delays=(LONGEST_DELAY_MS + 1,))], "a delay for all records, or one for each, is -1 to "),
    ],
)
def test_what_makes_no_sense_is_refused_as_a_whole(batches: list[Any], why: str | None) -> None:
    sharing = Sharing()
    asked = acknowledging_by(sharing)
    place = TopicPartition(TOPIC, 3)
    asked.say([(place, batches)])
    if why is None:
        assert asked.refused == {}
        assert sharing.said == [
            (
                KEY,
                place,
                [Acknowledgement(it.first_offset, it.last_offset, it.acknowledge_types, it.release_delays_ms, reason="")
                 for it in batches],
            )
        ]  # fmt: skip
    else:
        error = asked.refused[place]
        assert error is not None
        assert (error.code, (error.message or "")[: len(why)], sharing.said) == (ErrorCode.INVALID_REQUEST, why, [])


@pytest.mark.parametrize(
    ("version", "is_renewal", "taken"), [(2, True, True), (3, True, True), (1, True, False), (2, False, False)]
)
def test_who_may_renew(version: int, is_renewal: bool, taken: bool) -> None:
    sharing = Sharing()
    acknowledging_by(sharing, version, is_renewal=is_renewal).say([(TopicPartition(TOPIC, 0), [batch(0, 0, 4)])])
    assert bool(sharing.said) is taken
    acknowledging_by(sharing, version, is_renewal=is_renewal).say([(TopicPartition(TOPIC, 0), [batch(0, 0, 3)])])
    assert len(sharing.said) == taken + 1


async def test_it_is_settled_when_all_are_answered() -> None:
    sharing = Sharing()
    asked = acknowledging_by(sharing)
    one, two, hidden, none = (
        TopicPartition(topic, index) for topic, index in ((TOPIC, 0), (TOPIC, 1), (HIDDEN, 0), (NONE, 0))
    )
    assert asked.is_settled
    await asked.settled()
    asked.say([(place, [batch(0, 0, 1)]) for place in (one, two, hidden, none)])
    asked.say([(TopicPartition(TOPIC, 9), [])])
    assert {place: error.code for place, error in asked.refused.items() if error is not None} == {
        hidden: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        none: ErrorCode.UNKNOWN_TOPIC_ID,
    }
    assert not asked.is_settled
    settled = asked.settled()
    settled.send(None)
    error = KafkaError(ErrorCode.INVALID_RECORD_STATE)
    sharing.answer[0](error)
    assert (asked.is_settled, asked._settled is not None and asked._settled.done()) == (False, False)
    sharing.answer[1](None)
    assert (asked.is_settled, asked._settled is not None and asked._settled.done()) == (True, True)
    assert (asked.refused[one], asked.refused[two]) == (error, None)
    settled.close()


async def test_what_is_answered_when_nobody_waits_any_more_is_noted() -> None:
    sharing = Sharing()
    asked = acknowledging_by(sharing)
    asked.say([(TopicPartition(TOPIC, 0), [batch(0, 0, 1)])])
    settled = asyncio.ensure_future(asked.settled())
    await asyncio.sleep(0)
    settled.cancel()
    await asyncio.sleep(0)
    sharing.answer[0](None)
    assert (asked.is_settled, settled.cancelled()) == (True, True)


async def test_of_what_is_said_in_parts_the_error_stays() -> None:
    sharing = Sharing()
    asked, place, error = (
        acknowledging_by(sharing),
        TopicPartition(TOPIC, 0),
        KafkaError(ErrorCode.INVALID_RECORD_STATE),
    )
    asked.say([(place, [batch(0, 0, 1)]), (place, [batch(1, 1, 1)])])
    sharing.answer[0](error)
    sharing.answer[1](None)
    assert (asked.refused, asked.is_settled) == ({place: error}, True)


@pytest.mark.parametrize(
    ("code", "is_told"),
    [
        (None, False),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (ErrorCode.FENCED_LEADER_EPOCH, True),
        (ErrorCode.UNKNOWN_TOPIC_ID, False),
    ],
)
def test_who_leads_is_told_where_the_leader_has_moved(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode | None, is_told: bool
) -> None:
    asked: list[Any] = []

    def endpoints_of(image: Any, listener: str, leaders: Any) -> list[Any]:
        asked.append((listener, list(leaders)))
        return [SimpleNamespace(node_id=7, host="h", port=9, rack="r")]

    monkeypatch.setattr(acknowledging, "current_leader", lambda image, topic_id, index: (7, index + 1))
    monkeypatch.setattr(acknowledging, "endpoints_of", endpoints_of)
    telling = Telling(cast("Any", SimpleNamespace(image=None)), Told, Leader)
    results = [SimpleNamespace(current_leader=None) for _ in range(3)]
    for result, (topic, index) in zip(results, ((TOPIC, 1), (HIDDEN, 0), (TOPIC, 2)), strict=True):
        telling.tell(TopicPartition(topic, index), result, None if code is None else KafkaError(code))
    assert [(topic.topic_id, topic.partitions) for topic in telling.topics] == [
        (TOPIC, [results[0], results[2]]),
        (HIDDEN, [results[1]]),
    ]
    leaders = [None if it.current_leader is None else vars(it.current_leader) for it in results]
    assert leaders == [{"leader_id": 7, "leader_epoch": epoch} if is_told else None for epoch in (2, 1, 3)]
    (endpoint,) = telling.endpoints("L", Leader)
    assert (vars(endpoint), asked) == (
        {"node_id": 7, "host": "h", "port": 9, "rack": "r"},
        [("L", [7] if is_told else [])],
    )


class Leader(SimpleNamespace): ...


class Told:
    def __init__(self, topic_id: UUID) -> None:
        self.topic_id = topic_id
        self.partitions: list[Any] = []
