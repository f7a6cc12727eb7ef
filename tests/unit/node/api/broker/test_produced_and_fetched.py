"""What is decided about one Produce and one Fetch beside reading and writing, each condition alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.log.validation import PATIENT
from penstock.node.api.broker import fetch, produce
from penstock.node.serving.access import ALLOW_ALL
from penstock.node.serving.handler import CloseConnection
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.produce import Produced

BATCH = memoryview(b"batch")


class Partition:
    """Appends at offset 7, two records; `lacks` says whether replicas are to be waited for."""

    def __init__(self, *, lacks: bool = True, high_watermark: int = 7, is_internal: bool = False) -> None:
        self.committed = SimpleNamespace(high_watermark=high_watermark)
        self.is_internal = is_internal
        self.topic = "__consumer_offsets" if is_internal else "t"
        self.traffic = SimpleNamespace(failed_produces=0)
        self.appended: list[tuple[int, int]] = []
        self._lacks = lacks

    def append(self, batch: memoryview, *, acks: int, now_ms: int, origin: object) -> tuple[int, int, int, int, int]:
        assert (batch, origin) == (BATCH, PATIENT)
        self.appended.append((acks, now_ms))
        return 7, 8, -1, 0, 5

    def lacks(self, last_offset: int, acks: int) -> bool:
        assert (last_offset, acks) == (8, self.appended[-1][0])
        return self._lacks


class Made:
    """A request to one partition, and what was encoded in place of answers."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        partition: Partition | None,
        *,
        acks: int = -1,
        is_late: bool = False,
        client_id: str = "c",
        allows: bool | None = None,
    ) -> None:
        monkeypatch.setattr(produce, "encode_appended", lambda *of: b"appended")
        monkeypatch.setattr(produce, "Uncommitted", lambda *of: of)
        monkeypatch.setattr(produce, "encode_produce_response", lambda *of: ["response", *of])
        monkeypatch.setattr(produce, "Refusals", lambda *_: self)
        self.failed: list[int] = []
        self.leases = 0
        context: Any = SimpleNamespace(
            api_version=9,
            correlation_id=3,
            authorizer=ALLOW_ALL if allows is None else object(),
            allows=lambda right, name: allows,
            client_id=client_id,
            counts=SimpleNamespace(failed=self.failed.append),
        )
        broker: Any = SimpleNamespace(
            lease=SimpleNamespace(is_over=is_late),
            now_ms=lambda: 55,
            partitions=SimpleNamespace(get=lambda topic, index: partition),
            partition=self.missing,
            check_lease=self.check_lease,
        )
        asked: Any = (None, acks, 100, [("t", [(4, BATCH)])], False)
        self.it: Any = cast("Any", produce._Request(broker, context, cast("Produced", asked)))
        self.it.append(self.it.topics)

    def missing(self, topic: str, index: int) -> Any:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def check_lease(self, partition: object) -> None:
        self.leases += 1

    def encode(self, topic: str, index: int, error: KafkaError) -> bytes:
        return error.code.name.encode()

    def response(self, answers: Any) -> list[Any]:
        return ["refusals", answers]


@pytest.mark.parametrize(
    ("acks", "lacks", "high_watermark", "waits"),
    [
        (-1, True, 7, True),
        (1, True, 7, True),
        (0, True, 7, False),
        (-1, False, 7, False),
        (-1, True, 8, True),
        (-1, True, 9, False),
    ],
)
def test_who_waits_for_replicas(
    monkeypatch: pytest.MonkeyPatch, acks: int, lacks: bool, high_watermark: int, waits: bool
) -> None:
    partition = Partition(lacks=lacks, high_watermark=high_watermark)
    it = Made(monkeypatch, partition, acks=acks).it
    assert it._answers == [("t", [b"appended"])]
    assert partition.appended == [(acks, 55)]
    done = it._answers[0][1]
    assert it._pending == ([(partition, "t", 4, 8, acks, done, 0)] if waits else [])
    assert it.is_done is (not waits and acks != 0)
    if acks == 0:
        assert it.answer() is None
    elif not waits:
        assert it.answer() == ["response", [("t", [b"appended"])], 9, 3]


@pytest.mark.parametrize(("acks", "is_valid"), [(-2, False), (-1, True), (0, True), (1, True), (2, False)])
def test_which_acks_there_are(monkeypatch: pytest.MonkeyPatch, acks: int, is_valid: bool) -> None:
    partition = Partition()
    made = Made(monkeypatch, partition, acks=acks)
    assert len(partition.appended) == is_valid
    assert made.failed == ([] if is_valid else [ErrorCode.INVALID_REQUIRED_ACKS])
    if not is_valid:
        answers = [("t", [b"INVALID_REQUIRED_ACKS"])]
        assert (made.it.answer(), partition.traffic.failed_produces) == (["refusals", answers], 1)


@pytest.mark.parametrize(
    ("how", "is_internal", "code"),
    [
        ({}, False, None),
        ({"allows": True}, False, None),
        ({"allows": False}, False, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ({}, True, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"client_id": "__admin_client"}, True, None),
        ({"is_late": True}, False, None),
    ],
)
def test_who_may_append(
    monkeypatch: pytest.MonkeyPatch, how: dict[str, Any], is_internal: bool, code: ErrorCode | None
) -> None:
    partition = Partition(is_internal=is_internal)
    made = Made(monkeypatch, partition, **how)
    assert len(partition.appended) == (code is None)
    assert made.failed == ([] if code is None else [code])
    assert made.leases == how.get("is_late", False)


def test_an_error_without_acks_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Made(monkeypatch, None, acks=0).it
    with pytest.raises(CloseConnection, match="produce with acks=0 failed: t-4: UNKNOWN_TOPIC_OR_PARTITION"):
        it.answer()
    assert not it.is_done


@pytest.mark.parametrize(("acks", "timeout_ms"), [(1, produce.OF_LEADERS_MS), (-1, 100)])
@pytest.mark.parametrize("is_over", [True, False])
def test_a_leader_alone_is_waited_for_longer(
    monkeypatch: pytest.MonkeyPatch, acks: int, timeout_ms: int, is_over: bool
) -> None:
    waited: list[int] = []

    def replicating(refusals: object, timeout_ms: int, answers: object, pending: object) -> Any:
        waited.append(timeout_ms)
        return SimpleNamespace(is_over=is_over, response=lambda: ["at once"])

    monkeypatch.setattr(produce, "Replicating", replicating)
    answer = cast("Any", Made(monkeypatch, Partition(), acks=acks).it.answer())
    assert (answer == ["at once"], waited) == (is_over, [timeout_ms])


@pytest.mark.parametrize(
    ("unlooked", "unverified", "waits"), [([], [], False), ([1], [], True), ([], [1], True), ([1], [1], True)]
)
def test_what_is_left_to_be_looked_at_goes_in_steps(
    monkeypatch: pytest.MonkeyPatch, unlooked: list[Any], unverified: list[Any], waits: bool
) -> None:
    made = SimpleNamespace(
        topics=["topics"], unlooked=unlooked, unverified=unverified, append=lambda topics: None,
        rest=lambda: "rest", answer=lambda: "answer",
    )  # fmt: skip
    monkeypatch.setattr(produce, "_Request", lambda *_: made)
    monkeypatch.setattr(produce, "parse_produce", lambda *_, **__: None)
    broker: Any = SimpleNamespace(slices=SimpleNamespace(answer=lambda steps: f"steps of {steps}"))
    found: Any = produce.produce(broker, cast("Any", SimpleNamespace(api_version=9)), memoryview(b""), 0)
    assert found == ("steps of rest" if waits else "answer")


class Fetched:
    """In the place of a reader."""

    def __init__(self, *, is_enough: bool) -> None:
        self.is_enough = is_enough
        self.read: Any = list[Any]().append

    def answer(self) -> str:
        return "answer"


@pytest.mark.parametrize(
    ("wanted", "is_enough", "wait_ms", "replica_id", "is_incremental", "found"),
    [
        (2, True, 5, -1, True, "answer"),
        (2, False, 0, -1, True, "answer"),
        (2, False, -1, -1, True, "answer"),
        (0, False, 5, -1, True, "answer"),
        (2, False, 5, -1, True, "waits None all"),
        (2, False, 1, -1, False, "waits None all"),
        (2, False, 5, 0, True, "waits session marks"),
        (2, False, 5, 3, True, "waits session marks"),
        (2, False, 5, 3, False, "waits None all"),
        (3, True, 0, -1, True, "wide"),
    ],
)
def test_how_a_fetch_is_answered(
    monkeypatch: pytest.MonkeyPatch,
    wanted: int,
    is_enough: bool,
    wait_ms: int,
    replica_id: int,
    is_incremental: bool,
    found: str,
) -> None:
    monkeypatch.setattr(fetch, "WIDE", 2)
    monkeypatch.setattr(fetch, "FetchReader", lambda *_: Fetched(is_enough=is_enough))
    monkeypatch.setattr(fetch, "_WideFetch", lambda _: "wide")
    monkeypatch.setattr(fetch, "_WaitingFetch", lambda _, session, asked: f"waits {session} {asked}")
    monkeypatch.setattr(fetch, "_to_look_at", lambda plan, session: "all" if session is None else "marks")
    plan: Any = SimpleNamespace(wanted=dict.fromkeys(range(wanted)), session="session", is_incremental=is_incremental)
    request: Any = SimpleNamespace(replica_id=replica_id, max_wait_ms=wait_ms)
    context: Any = SimpleNamespace(charge=None)
    assert cast("Any", fetch._fetched(cast("Any", None), context, request, plan)) == found


@pytest.mark.parametrize(("owed_ms", "is_throttled"), [(0, False), (1, True)])
def test_who_owes_is_answered_without_records(
    monkeypatch: pytest.MonkeyPatch, owed_ms: int, is_throttled: bool
) -> None:
    monkeypatch.setattr(fetch, "_owed_ms", lambda *_: owed_ms)
    monkeypatch.setattr(fetch, "_throttled", lambda sessions, context, plan, ms: f"throttled {ms}")
    monkeypatch.setattr(fetch, "FetchReader", lambda *_: Fetched(is_enough=True))
    plan: Any = SimpleNamespace(wanted={}, session=None, is_incremental=False)
    broker: Any = SimpleNamespace(fetch_sessions=None)
    context: Any = SimpleNamespace(charge=object())
    found: Any = fetch._fetched(broker, context, cast("Any", SimpleNamespace(replica_id=-1, max_wait_ms=0)), plan)
    assert found == ("throttled 1" if is_throttled else "answer")


@pytest.mark.parametrize(("is_incremental", "session_id", "closed"), [(True, 9, []), (False, 0, [9])])
def test_a_session_that_would_begin_does_so_later(
    monkeypatch: pytest.MonkeyPatch, is_incremental: bool, session_id: int, closed: list[int]
) -> None:
    monkeypatch.setattr(fetch, "encode_fetch_response", lambda *of, **how: (of, how))
    ended: list[int] = []
    sessions: Any = SimpleNamespace(close=ended.append)
    context: Any = SimpleNamespace(api_version=13, correlation_id=3)
    plan: Any = SimpleNamespace(is_incremental=is_incremental, session_id=9)
    of, how = cast("Any", fetch._throttled(sessions, context, plan, 70))
    assert (of, how) == (([], 13, 3), {"throttle_time_ms": 70, "session_id": session_id})
    assert ended == closed


@pytest.mark.parametrize(
    ("epoch", "version", "wanted"),
    [(-1, 12, "by name"), (0, 13, "by id"), (0, 12, "by name"), (1, 13, None), (7, 12, None)],
)
def test_only_a_request_that_names_all_is_taken_apart_as_a_whole(
    monkeypatch: pytest.MonkeyPatch, epoch: int, version: int, wanted: str | None
) -> None:
    request = SimpleNamespace(session_epoch=epoch)
    monkeypatch.setattr(fetch, "parse_fetch", lambda frame, position, version: request)
    monkeypatch.setattr(fetch, "wanted_in", lambda _, *, uses_topic_ids: "by id" if uses_topic_ids else "by name")
    assert fetch._taken_apart(b"frame", 3, version) == cast("Any", (request, wanted))
