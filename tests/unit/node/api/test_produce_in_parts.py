"""A produce request that is taken in parts: how much at once, and what is looked at before it is appended."""

from __future__ import annotations

from collections.abc import Callable
from mmap import mmap
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.node.api.test_produce_steps import Made, Partition, answers, made

from penstock.log.producer_state import UnverifiedError
from penstock.log.record_checks import UnlookedError
from penstock.log.validation import LOOKED_AT
from penstock.node.api.broker import produce as module
from penstock.node.api.broker.produce import BYTES_A_STEP, PARTITIONS_A_STEP, WIDE
from penstock.node.serving.frames import POOLED_FRAME_BYTES
from penstock.node.serving.late_answer import LateAnswer
from penstock.node.serving.room import RequestMemory
from penstock.protocol.errors import ErrorCode, KafkaError, TooManyItemsError

__all__ = ["made"]
LOOKED = memoryview(b"looked at")


def driven(steps: Any) -> tuple[Any, list[bool]]:
    """What comes of them, and of each whether something was to be worked out."""
    did = list[bool]()
    try:
        step = next(steps)
        while True:
            did.append(step is not None)
            try:
                value = step() if callable(step) else step
            except KafkaError as error:
                step = steps.throw(error)
            else:
                step = steps.send(value)
    except StopIteration as end:
        return end.value, did


class Asked:
    """In the place of `_Request`: keeps the parts."""

    def __init__(self, *topics: tuple[str, list[tuple[int, bytes | None]]]) -> None:
        self.topics = topics
        self.parts: list[list[tuple[str, list[int]]]] = []

    def append(self, part: Any) -> None:
        self.parts.append([(topic, [index for index, _ in asked]) for topic, asked in part])

    def rest(self) -> Any:
        yield None
        return "answer"


def parts_of(monkeypatch: pytest.MonkeyPatch, asked: Asked) -> list[Any]:
    monkeypatch.setattr(module, "parse_produce", lambda *_: asked)
    monkeypatch.setattr(module, "_Request", lambda broker, context, parsed: parsed)
    context: Any = SimpleNamespace(api_version=9)
    broker: Any = SimpleNamespace(slices=SimpleNamespace(taken_apart=lambda parse: parse, memory=RequestMemory()))
    answer, did = driven(module._produce_in_parts(broker, context, memoryview(b""), 0))
    assert answer == "answer"
    assert did == [True, *[False] * len(asked.parts)], "others have their turn between parts"
    return asked.parts


@pytest.mark.parametrize("count", [1, PARTITIONS_A_STEP, PARTITIONS_A_STEP + 1, 3 * PARTITIONS_A_STEP])
def test_so_many_partitions_are_taken_at_once(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    first = [(index, b"r") for index in range(count)]
    parts = parts_of(monkeypatch, Asked(("a", [*first]), ("b", [(0, None)])))
    flat = [(topic, index) for part in parts for topic, indexes in part for index in indexes]
    assert flat == [*(("a", index) for index in range(count)), ("b", 0)]
    sizes = [sum(len(indexes) for _, indexes in part) for part in parts]
    whole, rest = divmod(count + 1, PARTITIONS_A_STEP)
    assert sizes == [*[PARTITIONS_A_STEP] * whole, rest]
    assert all(len({topic for topic, _ in part}) == len(part) for part in parts), "each topic once"


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ([BYTES_A_STEP - 1, 1, 1], [[0, 1], [2]]),
        ([BYTES_A_STEP, 1], [[0], [1]]),
        ([BYTES_A_STEP, BYTES_A_STEP - 1, 5], [[0], [1, 2], []]),
        ([BYTES_A_STEP - 1], [[0]]),
        ([BYTES_A_STEP // 2, BYTES_A_STEP // 2, BYTES_A_STEP // 2, BYTES_A_STEP // 2], [[0, 1], [2, 3], []]),
        ([BYTES_A_STEP + 5, BYTES_A_STEP + 5], [[0], [1], []]),
    ],
)
def test_so_many_bytes_are_taken_at_once(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], parts: list[list[int]]
) -> None:
    found = parts_of(monkeypatch, Asked(("a", [(index, bytes(size)) for index, size in enumerate(sizes)])))
    assert [[index for _, indexes in part for index in indexes] for part in found] == parts


@pytest.mark.parametrize(
    ("size", "is_wide", "left", "in_parts"),
    [
        (POOLED_FRAME_BYTES, False, [], False),
        (POOLED_FRAME_BYTES + 1, False, [], True),
        (5, True, [], True),
        (5, False, ["unlooked"], False),
        (5, False, ["unverified"], False),
    ],
)
def test_which_requests_are_taken_in_parts(
    monkeypatch: pytest.MonkeyPatch, size: int, left: list[str], *, is_wide: bool, in_parts: bool
) -> None:
    def parse(frame: memoryview, position: int, version: int, most: int) -> Any:
        assert (position, version, most) == (3, 9, WIDE)
        if is_wide:
            raise TooManyItemsError("too many")
        return SimpleNamespace(
            topics="topics",
            append=lambda topics: None,
            unlooked="unlooked" in left,
            unverified="unverified" in left,
            rest=lambda: "rest",
            answer=lambda: "at once",
        )

    kept: list[Any] = []

    def in_parts_of(*words: Any) -> str:
        kept.append(words[2])
        return "in parts"

    monkeypatch.setattr(module, "parse_produce", parse)
    monkeypatch.setattr(module, "_Request", lambda broker, context, parsed: parsed)
    monkeypatch.setattr(module, "_produce_in_parts", in_parts_of)
    broker: Any = SimpleNamespace(slices=SimpleNamespace(answer=lambda steps: ("later", steps)))
    context: Any = SimpleNamespace(api_version=9)
    frame = memoryview(bytearray(size))
    produce: Callable[..., Any] = module.produce
    expected: Any = ("later", "in parts") if in_parts else ("later", "rest") if left else "at once"
    assert produce(broker, context, frame, 3) == expected
    if in_parts:
        assert (bytes(kept[0]) == bytes(frame), kept[0] is frame) == (True, False), "the buffer is used again"
    with mmap(-1, POOLED_FRAME_BYTES + 1) as own:
        frame = memoryview(own)
        assert produce(broker, context, frame, 3) == ("later", "in parts")
        assert kept.pop() is frame, "nobody else uses it"
        frame.release()


# -- what is left -----------------------------------------------------------------------------------------------------


class Unlooked(Partition):
    """What comes has to be looked at first; `seen` is what that brings."""

    def __init__(self, seen: memoryview | KafkaError) -> None:
        super().__init__(behind=False)
        self.seen = seen

    def _look(self) -> memoryview:
        if isinstance(self.seen, KafkaError):
            raise self.seen
        return self.seen

    def append(self, records: Any, **how: Any) -> Any:
        if how["origin"] is LOOKED_AT:
            return super().append(records, **how)
        error = UnlookedError.__new__(UnlookedError)
        error.look = self._look
        raise error


@pytest.mark.parametrize(
    ("first", "second", "failure"),
    [
        (LOOKED, LOOKED, None),
        (KafkaError(ErrorCode.CORRUPT_MESSAGE), LOOKED, "t-0: CORRUPT_MESSAGE"),
        (KafkaError(ErrorCode.CORRUPT_MESSAGE), KafkaError(ErrorCode.INVALID_RECORD), "t-0: CORRUPT_MESSAGE"),
    ],
)
def test_what_a_thread_has_looked_at_is_appended(
    made: Made, first: memoryview | KafkaError, second: memoryview | KafkaError, failure: str | None
) -> None:
    seen = [first, second]
    for index, one in enumerate(seen):
        made.partitions["t", index] = Unlooked(one)
    made.partitions["t", 2] = Partition(behind=False)
    request = made.request((0, b"a"), (1, b"b"), (2, b"c"))
    assert [index for _, index, _, _ in request.unlooked] == [0, 1]
    assert answers(request) == [("appended", 9, 2, 40, 5, 1)], "the others are not kept waiting"
    answer, did = driven(request.rest())
    looked = [
        ("t", index, one.code) if isinstance(one, KafkaError) else ("appended", 9, index, 40, 5, 1)
        for index, one in enumerate(seen)
    ]
    assert answers(request) == [("appended", 9, 2, 40, 5, 1), *looked]
    assert request._failure == failure
    assert answer == (("whole", request._answers, 9, 5) if failure is None else ("told", *request._answers))
    assert did == [
        kind for one in seen for kind in ([True, True, False] if isinstance(one, KafkaError) else [True, False])
    ]


@pytest.mark.parametrize(("count", "elsewhere"), [(WIDE, False), (WIDE + 1, True)])
@pytest.mark.parametrize("acks", [-1, 0])
def test_a_large_answer_is_made_elsewhere(made: Made, count: int, acks: int, *, elsewhere: bool) -> None:
    for index in range(count):
        made.partitions["t", index] = Partition(behind=False)
    request = made.request(*((index, b"r") for index in range(count)), acks=acks)
    answer, did = driven(request.rest())
    assert did == [True] * (elsewhere and acks != 0)
    assert answer == (("whole", request._answers, 9, 5) if acks else None)


def test_an_answer_that_comes_late_is_waited_for(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(LateAnswer[Any]):
        is_over = False

        def call_off(self) -> None: ...

    late = Late()
    monkeypatch.setattr(module, "Replicating", lambda *_: late)
    answer, did = driven(made.request((0, b"a")).rest())
    assert (answer, did) == (late, [True])


def test_what_is_not_verified_or_held_keeps_nobody_waiting(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    class Strange(Partition):
        def append(self, records: Any, **how: Any) -> Any:
            error = UnverifiedError.__new__(UnverifiedError)
            error.header = "header"  # type: ignore[assignment]
            raise error

    made.partitions["t", 0] = Strange()
    made.partitions["t", 1].error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    made.partitions["t", 2] = Partition(behind=False)
    monkeypatch.setattr(
        module, "_held", lambda broker, error, where, batch, how, done: ("held", where, bytes(batch), how)
    )
    request = made.request((0, b"a"), (1, b"b"), (2, b"c"))
    (one,) = request.unverified
    assert (one.topic, one.partition, bytes(one.batch), one.header) == ("t", 0, b"a", "header")
    assert request._pending == [("held", ("t", 1), b"b", (-1, 300, None, 9))]
    assert answers(request) == [("appended", 9, 2, 40, 5, 1)]
