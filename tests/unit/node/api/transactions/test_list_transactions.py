"""Ids of transactions fit a pattern as a whole; a thread looks for those that do, and none takes long."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.coordinator.transaction.transaction import State
from penstock.node.api.transactions.list_transactions import IDS_A_STEP, list_transactions
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse


def listed(ids: list[str], pattern: str | None) -> tuple[ListTransactionsResponse, list[bool]]:
    """The answer, and of each step whether it is a thread's."""
    known = SimpleNamespace(producer_id=1, state=State.ONGOING, start_ms=0)
    machine = SimpleNamespace(transactions=lambda: [(one, known) for one in ids])
    transactions = SimpleNamespace(all_serving=lambda: [SimpleNamespace(machine=machine)], now_ms=lambda: 0)
    request = ListTransactionsRequest(transactional_id_pattern=pattern)
    steps = list_transactions(cast("Any", SimpleNamespace(transactions=transactions)), cast("Any", None), request)
    in_threads: list[bool] = []
    result: Any = None
    error: Exception | None = None
    while True:
        try:
            work = steps.send(result) if error is None else steps.throw(error)
        except StopIteration as stop:
            return stop.value, in_threads
        in_threads.append(callable(work))
        result, error = None, None
        if callable(work):
            try:
                result = work()
            except ValueError as raised:
                error = raised


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        (None, ["pay-1", "pay-12", "zahlung-ü", "n" * 2_000]),
        ("", ["pay-1", "pay-12", "zahlung-ü", "n" * 2_000]),
        ("pay-[0-9]", ["pay-1"]),
        ("pay", []),
        (".*ü", ["zahlung-ü"]),
        ("n+", ["n" * 2_000]),
        (".?" * 20 + "z", []),
        ("(a*)*(b|bb)*", []),
    ],
)
def test_the_whole_id_fits(pattern: str | None, fits: list[str]) -> None:
    answer, in_threads = listed(["pay-1", "pay-12", "zahlung-ü", "n" * 2_000], pattern)
    assert [state.transactional_id for state in answer.transaction_states] == fits
    assert in_threads == [True] * bool(pattern)


@pytest.mark.parametrize("pattern", ["(", r"(a)\1", "(?=a)a", "x" * 5_001])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    answer, _ = listed(["a"], pattern)
    assert (answer.error_code, answer.transaction_states) == (ErrorCode.INVALID_REGULAR_EXPRESSION, [])


def test_many_ids_have_steps() -> None:
    answer, in_threads = listed([f"pay-{number}" for number in range(3 * IDS_A_STEP)], "pay-.*7")
    assert len(answer.transaction_states) == 3 * IDS_A_STEP // 10
    assert in_threads == [False, False, False, True]
