"""What a share fetch must not say, when it is answered at once, and what of its partitions is told, each row alone."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from penstock.node.api.share_groups import share_fetch as module
from penstock.node.sharing.shared import Taken
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import share_fetch as layout
from penstock.protocol.messages.share_fetch import ShareFetchRequest
from penstock.sharing.acquiring import Acquired
from penstock.sharing.sessions import TopicPartition

TOPIC_ID = UUID(int=7)
MOVED = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another leads")
WRONG = KafkaError(ErrorCode.INVALID_RECORD_STATE, "not its own")


def place(index: int) -> TopicPartition:
    return TopicPartition(TOPIC_ID, index)


def topics(*, says: bool = False) -> list[layout.FetchTopic]:
    batches = [layout.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])] if says else []
    part = layout.FetchPartition(partition_index=0, acknowledgement_batches=batches)
    return [layout.FetchTopic(topic_id=TOPIC_ID, partitions=[part])]


def request(**named: Any) -> ShareFetchRequest:
    nothing = {"share_session_epoch": 4, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    return ShareFetchRequest(group_id="g", member_id="ann", topics=named.pop("topics", []), **nothing | named)


RENEWS = {"is_renew_ack": True}


@pytest.mark.parametrize(
    ("named", "version", "why"),
    [
        ({"share_session_epoch": 0, "topics": topics()}, 2, None),
        ({"share_session_epoch": 0, "topics": topics(says=True)}, 2, "nothing can be acknowledged"),
        ({"share_session_epoch": 1, "topics": topics(says=True)}, 2, None),
        ({"share_session_epoch": -1, "topics": topics(says=True)}, 2, None),
        ({"share_acquire_mode": 1}, 2, None),
        ({"share_acquire_mode": 2}, 2, "unknown acquire mode 2"),
        ({"share_acquire_mode": -1}, 2, "unknown acquire mode -1"),
        (RENEWS, 2, None),
        (RENEWS | {"max_bytes": 1}, 2, "maxBytes must be 0 if isRenewAck is true"),
        (RENEWS | {"min_bytes": 1}, 2, "minBytes must be 0"),
        (RENEWS | {"max_records": 1}, 2, "maxRecords must be 0"),
        (RENEWS | {"max_wait_ms": 1}, 2, "maxWaitMs must be 0"),
        (RENEWS | {"max_wait_ms": 1, "max_bytes": 1}, 2, "maxBytes, maxWaitMs must be 0"),
        (RENEWS | {"max_bytes": 1}, 1, None),
        ({"max_bytes": 1}, 2, None),
    ],
)
def test_what_a_request_must_not_say(named: dict[str, Any], version: int, why: str | None) -> None:
    if why is None:
        module._check(request(**named), version)
        return
    with pytest.raises(KafkaError, match=why) as refused:
        module._check(request(**named), version)
    assert refused.value.code == ErrorCode.INVALID_REQUEST


class Fetch:
    """In the place of `ShareFetch`."""

    def __init__(self, **is_so: Any) -> None:
        self.did: list[str] = []
        self.takes = is_so.get("takes", True)
        self.is_counted = is_so.get("is_counted", True)
        self.taken: dict[Any, Taken] = {}
        self.refused: dict[Any, KafkaError] = {}

    def take(self, *, is_last: bool) -> bool:
        self.did.append(f"take {is_last}")
        return bool(self.takes)

    async def wait_and_take(self, slices: object) -> None:
        self.did.append("wait")

    async def counted(self) -> None:
        self.did.append("counted")


class Asked:
    """A request of a session, with what it is made of put in its place."""

    def __init__(self, fetch: Fetch | None, *, partitions: int = 1, is_settled: bool = True, **named: Any) -> None:
        self.fetch = fetch
        self.did: list[str] = [] if fetch is None else fetch.did
        self.it: Any = cast("Any", module._Asked.__new__(module._Asked))
        it = self.it
        it._request = request(**named)
        self.known: dict[Any, bool] = dict.fromkeys(map(place, range(partitions)), False)
        it._session = SimpleNamespace(partitions=self.known)
        it._refused, it._is_final, it._throttle_ms = {}, named.get("share_session_epoch") == -1, 0
        it._places, it._limits = [], lambda: None
        self.failed: list[int] = []
        it._context = SimpleNamespace(counts=SimpleNamespace(failed=self.failed.append))
        sessions = SimpleNamespace(remember=self.remember, forget=self.forget)
        it._broker = SimpleNamespace(sharing=SimpleNamespace(sessions=sessions), slices="slices")
        it._saying = SimpleNamespace(is_settled=is_settled, refused={}, say=self.say, settled=self.settled)
        it._begin = lambda limits: fetch
        it._answer = lambda found: ("answer", found is fetch)

    def remember(self, session: object, where: TopicPartition) -> None:
        self.did.append(f"remember {where.partition}")
        if where.partition == 9:
            raise MOVED

    def forget(self, session: object, where: TopicPartition) -> None:
        self.did.append(f"forget {where.partition}")

    def say(self, named: Sequence[Any]) -> None:
        self.did.append(f"say {len(named)}")

    async def settled(self) -> None:
        self.did.append("settled")


@pytest.mark.parametrize(
    ("fetch", "refused", "wait_ms", "is_settled", "did"),
    [
        (None, False, 5, True, None),
        (Fetch(), False, 5, True, ["take False"]),
        (Fetch(takes=False), False, 0, True, ["take True"]),
        (Fetch(takes=False), False, -1, True, ["take True"]),
        (Fetch(), True, 5, True, []),
    ],
)
def test_what_is_answered_at_once(
    fetch: Fetch | None, refused: bool, wait_ms: int, is_settled: bool, did: list[str] | None
) -> None:
    asked = Asked(fetch, is_settled=is_settled, max_wait_ms=wait_ms)
    if refused:
        asked.it._refused[place(0)] = MOVED
    assert asked.it.answer() == ("answer", True)
    assert asked.did[1:] == (did or [])


@pytest.mark.parametrize(
    ("fetch", "wait_ms", "is_settled", "did"),
    [
        (None, 5, False, ["settled"]),
        (Fetch(takes=False), 5, True, ["take False", "wait", "counted", "settled"]),
        (Fetch(takes=False), 5, False, ["take False", "wait", "counted", "settled"]),
        (Fetch(), 5, False, ["take False", "counted", "settled"]),
        (Fetch(is_counted=False), 5, True, ["take False", "counted", "settled"]),
        (Fetch(takes=False, is_counted=False), 0, True, ["take True", "counted", "settled"]),
    ],
)
async def test_what_is_waited_for(fetch: Fetch | None, wait_ms: int, is_settled: bool, did: list[str]) -> None:
    asked = Asked(fetch, is_settled=is_settled, max_wait_ms=wait_ms)
    assert await asked.it.answer() == ("answer", True)
    assert asked.did[1:] == did


FORGETS = [layout.ForgottenTopic(topic_id=TOPIC_ID, partitions=[1, 2])]


@pytest.mark.parametrize(("epoch", "remembers"), [(4, ["remember 0", "say 1"]), (-1, ["say 1"])])
def test_what_is_named_belongs_to_a_session_that_goes_on(epoch: int, remembers: list[str]) -> None:
    asked = Asked(None, share_session_epoch=epoch, topics=topics(), forgotten_topics_data=FORGETS)
    asked.it.answer()
    assert asked.did == [*remembers, "forget 1", "forget 2"]


def test_what_a_session_has_no_room_for_is_refused_alone() -> None:
    asked = Asked(None)
    asked.it._name([(place(9), []), (place(1), [])])
    assert (asked.did, asked.it._refused) == (["remember 9", "remember 1", "say 2"], {place(9): MOVED})


@pytest.mark.parametrize(
    ("partitions", "forgotten", "is_wide"),
    [(3, 3, False), (4, 0, True), (0, 4, True), (3, 0, False)],
)
def test_very_much_is_answered_in_slices(
    monkeypatch: pytest.MonkeyPatch, partitions: int, forgotten: int, is_wide: bool
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 3)
    forgets = [layout.ForgottenTopic(topic_id=TOPIC_ID, partitions=list(range(forgotten)))]
    asked = Asked(None, partitions=partitions, forgotten_topics_data=forgets)
    asked.it._answer_wide = lambda: "wide"
    assert asked.it.answer() == ("wide" if is_wide else ("answer", True))


def test_of_which_partitions_there_is_news() -> None:
    fetch = Fetch()
    asked = Asked(fetch, partitions=6)
    fetch.taken = {place(1): Taken(b"", ())}
    fetch.refused = {place(2): MOVED}
    asked.known[place(3)] = True
    asked.it._readable = SimpleNamespace(refusal={place(9): MOVED}.get)
    asked.it._sort([*map(place, range(6)), place(9)])
    asked.it._saying.refused = {place(4): WRONG}
    assert [it.partition for it in asked.it._to_tell(fetch)] == [9, 4, 1, 2, 3]
    assert asked.known == {place(at): at == 2 for at in range(6)}, "one that is refused is told again"
    assert [it.partition for it in asked.it._places] == list(range(6))
    assert [it.partition for it in asked.it._to_tell(fetch)] == [9, 4, 1, 2]
    assert [it.partition for it in asked.it._to_tell(None)] == [9, 4]


def test_what_is_told_of_each() -> None:
    fetch = Fetch()
    asked = Asked(fetch, partitions=6)
    fetch.taken = {place(1): Taken(b"records", [Acquired(3, 5, 2)]), place(4): Taken(b"more", [Acquired(0, 0, 1)])}
    fetch.refused = {place(2): MOVED}
    asked.it._refused = {place(0): WRONG}
    asked.it._saying.refused = {place(2): WRONG, place(3): WRONG, place(4): MOVED}
    told: list[tuple[Any, ...]] = []

    def tell(where: TopicPartition, result: Any, error: KafkaError | None) -> None:
        acquired = [(it.first_offset, it.last_offset, it.delivery_count) for it in result.acquired_records]
        said = result.error_code, result.error_message, result.acknowledge_error_code
        assert where.partition == result.partition_index
        told.append((where.partition, *said, result.records, acquired, error))

    asked.it._tell(SimpleNamespace(tell=tell), fetch, map(place, range(6)))
    moved, wrong = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.INVALID_RECORD_STATE
    assert told == [
        (0, wrong, "not its own", 0, b"", [], WRONG),
        (1, 0, None, 0, b"records", [(3, 5, 2)], None),
        (2, moved, "another leads", wrong, b"", [], MOVED),
        (3, 0, None, wrong, b"", [], WRONG),
        (4, 0, None, moved, b"more", [(0, 0, 1)], MOVED),
        (5, 0, None, 0, b"", [], None),
    ]
    assert asked.failed == [wrong, moved]
