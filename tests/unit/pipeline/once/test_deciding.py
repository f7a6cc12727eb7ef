"""The steps of a decision, and what stands against one; how it is written down, and which ids tasks take."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.client.values import TransactionName
from penstock.pipeline.datasource.decider import advice_on
from penstock.pipeline.once.deciding import (
    AbortedError,
    End,
    Fence,
    LateError,
    ListOpen,
    Look,
    LostError,
    OutrunError,
    Step,
    Write,
    deciding,
)
from penstock.pipeline.once.decision import Decision, decode_decision
from penstock.pipeline.once.names import TaskNames, decider_of, ids_of
from penstock.protocol.errors import DecodeError

A, B, C = (TransactionName(name, 7, 3, True) for name in "abc")


def steps(
    batch: int, prepared: list[TransactionName], *, taken: list[Step] | None = None, **answers: Any
) -> list[Step]:
    """All of them, with what is found as `answers` say; in `taken`, where they end with an error."""
    machine, answer = deciding(batch, prepared), None
    taken = [] if taken is None else taken
    while True:
        try:
            step = machine.send(answer)
        except StopIteration:
            return taken
        taken.append(step)
        answer = answers.get(type(step).__name__, True if isinstance(step, End | Write) else None)


def test_a_batch_is_decided_before_anything_ends() -> None:
    assert steps(4, [A, B], Look=Decision(3, (C,)), ListOpen=(A, B, C)) == [
        Fence(),
        Look(),
        ListOpen(),
        Write(Decision(4, (A, B))),
        End(A, commits=True),
        End(B, commits=True),
        End(C, commits=False),
    ]


def test_what_is_decided_is_carried_out_and_nothing_of_others_is_touched() -> None:
    assert steps(4, [A], Look=Decision(4, (B,))) == [
        Fence(),
        Look(),
        End(B, commits=True),
        End(A, commits=False),
    ]


def test_a_batch_without_rows_is_decided_too() -> None:
    assert steps(0, [], ListOpen=()) == [Fence(), Look(), ListOpen(), Write(Decision(0, ()))]


def test_what_is_gone_is_not_decided() -> None:
    with pytest.raises(AbortedError, match="b was aborted before batch 4 was decided"):
        steps(4, [A, B], ListOpen=(A,))


def test_what_comes_too_late_is_not_decided_and_nothing_of_others_is_touched() -> None:
    taken: list[Step] = []
    with pytest.raises(LateError, match="batch 4 was not decided"):
        steps(4, [A, B], taken=taken, ListOpen=(A, B, C), Write=False)
    assert taken[3:] == [Write(Decision(4, (A, B))), End(A, commits=False), End(B, commits=False)]


def test_a_run_that_is_behind_has_nothing_to_say() -> None:
    with pytest.raises(OutrunError, match="batch 5"):
        steps(4, [A], Look=Decision(5, ()))


def test_what_was_decided_and_is_aborted_is_told() -> None:
    with pytest.raises(LostError, match="batch 4 was decided"):
        steps(4, [A], Look=Decision(4, (B,)), End=False)
    with pytest.raises(LostError, match="b is forgotten: committed or aborted"):
        steps(4, [A], Look=Decision(4, (B,)), End=None)


def test_who_has_lost_something_is_told_what_to_do_by_what_the_cluster_can() -> None:
    plain = TransactionName("a", 7, 3)
    advice = [advice_on(LostError(4, *one)) for one in ((A,), (plain,))]
    forgotten = advice_on(LostError(4, plain, is_forgotten=True))
    assert ["by hand" in advice[0], "transaction.timeout.ms" in advice[0]] == [True, False]
    assert ["keeps it until" in advice[1], "transaction.max.timeout.ms" in advice[1]] == [True, True]
    assert ["transactional.id.expiration.ms" in forgotten, "read_committed" in forgotten] == [True, True]
    assert all("at-least-once" in one for one in (*advice, forgotten))


def test_a_decision_is_read_as_it_was_written() -> None:
    decision = Decision(4, (A, B))
    assert decode_decision(decision.encode()) == decision
    for text in (b"", b"[]", b'{"layout": 1}', b'{"layout": 1, "batch": 0, "transactions": [1]}', b"\xff"):
        with pytest.raises(DecodeError, match="cannot be read"):
            decode_decision(text)
    with pytest.raises(DecodeError, match="layout 2"):
        decode_decision(decision.encode().replace(b'"layout": 1', b'"layout": 2'))


def test_an_id_is_taken_again_by_a_later_batch_alone() -> None:
    names = TaskNames("q", "w")
    taken = [names.take(batch) for batch in (0, 1, 1, 2, 1, 2)]
    assert [name.removeprefix(ids_of("q")) for name in taken] == ["w-1", "w-1", "w-2", "w-1", "w-3", "w-2"]
    assert not decider_of("q").startswith(ids_of("q"))


@pytest.mark.parametrize("other", ["day/1", "day/", "day%2F1", "day 1"])
def test_no_querys_ids_begin_as_those_of_another_one(other: str) -> None:
    """Names of writes may have any letters."""
    assert not TaskNames(other, "w").take(0).startswith(ids_of("day"))
    assert TaskNames(other, "w").take(0).startswith(ids_of(other))
    assert len({ids_of(name) for name in ("day/1", "day%2F1", "day 1")}) == 3


def test_a_process_has_as_many_ids_as_a_batch_has_tasks_there() -> None:
    names = TaskNames("q", "w")
    taken = {names.take(batch) for batch in range(100) for _ in range(3)}
    assert len(taken) == 3


@pytest.mark.parametrize(
    ("aborted", "is_open", "is_decided"),
    [((), True, True), ((), False, False), ((B,), True, False), ((C,), True, True)],
)
def test_what_was_given_up_is_decided_with_no_batch(
    aborted: tuple[TransactionName, ...], is_open: bool, is_decided: bool
) -> None:
    """A run of the query that ended had it open: it may look so still."""
    answers: dict[str, Any] = {"Look": Decision(3, (), aborted), "ListOpen": (A, B) if is_open else (A,)}
    if is_decided:
        assert Write(Decision(4, (A, B))) in steps(4, [A, B], **answers)
        return
    taken: list[Step] = []
    with pytest.raises(AbortedError, match=r"^b was aborted before batch 4 was decided$"):
        steps(4, [A, B], taken=taken, **answers)
    assert taken == [Fence(), Look(), ListOpen()]
