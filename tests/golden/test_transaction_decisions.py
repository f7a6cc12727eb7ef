"""What a coordinator of transactions decides, of all that a transaction may be and all that may be asked: the whole
transaction that follows, or the error. `transaction_decisions.txt` has all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Final
from zlib import crc32

import pytest

from penstock.coordinator.transaction.decisions import (
    Decision,
    Moment,
    Needs,
    decide_add,
    decide_end,
    decide_init,
    decide_timeout,
    verify,
)
from penstock.coordinator.transaction.transaction import (
    MAX_EPOCH,
    WITHOUT_TIMEOUT_MS,
    Producer,
    State,
    Transaction,
)

EXPECTED: Final = Path(__file__).parent / "transaction_decisions.txt"
ID, BEFORE, FOLLOWING, FRESH, STRANGE = 7, 6, 8, 9, 5
NOW_MS: Final = 10_000
PLACE, OTHER = ("t", 0), ("t", 1)
OPEN: Final = (State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT)
STATES: Final = (State.EMPTY, *OPEN, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
"""In which a transaction may be; the others are never written."""
EPOCHS: Final = {"5": 5, "0": 0, "last": MAX_EPOCH - 1}
KEPT: Final = {"": {}, " kept": {"next_producer_id": FOLLOWING, "next_producer_epoch": 3}}


def transactions() -> Iterator[tuple[str, Transaction | None]]:
    yield "nothing", None
    for state, (name, epoch), (kept, values) in product(STATES, EPOCHS.items(), KEPT.items()):
        is_open = state in OPEN
        if kept and not is_open:
            continue
        found = Transaction(ID, epoch, 1_000, 500, state, {PLACE: None} if is_open else {}, 1 if is_open else -1)
        last = {"last_epoch": epoch - 1} if name == "5" else {}
        yield f"{state.name} {name}{kept}", found.replace(previous_producer_id=BEFORE, **last, **values)


WHO: Final = {
    "nobody": None,
    **{f"{who} {epoch}": Producer(producer_id, epoch)
       for who, producer_id in (("its", ID), ("before", BEFORE), ("following", FOLLOWING), ("strange", STRANGE))
       for epoch in (0, 3, 4, 5, 6, MAX_EPOCH - 1, MAX_EPOCH)},
}  # fmt: skip


def shown(decision: Decision) -> str:
    """What is not as by default."""
    if isinstance(decision, Needs):
        return "needs a producer id"
    if not isinstance(decision, Transaction):
        return decision.name
    usual = Transaction.__defaults__
    parts = [
        f"{name}={value.name if isinstance(value, State) else list(value) if isinstance(value, dict) else value}"
        for name in Transaction.__fields__
        if (value := getattr(decision, name)) != usual.get(name, object())
    ]
    return " ".join(parts)


def questions(known: Transaction | None) -> Iterator[tuple[str, str]]:
    for (who, producer), version, fresh in product(WHO.items(), (1, 2), (None, FRESH)):
        at = f"at {version}{'' if fresh is None else ' with an id'}"
        moment = Moment(NOW_MS, version, fresh)
        for keeps, timeout_ms in product((False, True), (2_000, WITHOUT_TIMEOUT_MS)):
            what = f"init{' keeps' * keeps}{' without time-out' * (timeout_ms != 2_000)}"
            yield f"{what}, {who} {at}", shown(decide_init(known, timeout_ms, producer, moment, keeps=keeps))
        if producer is None:
            continue
        for commits, raises in product((False, True), (False, True)):
            what = f"{'commit' if commits else 'abort'}{' raises' * raises}"
            yield f"{what}, {who} {at}", shown(decide_end(known, producer, commits=commits, raises=raises, at=moment))


def about_partitions(known: Transaction | None) -> Iterator[tuple[str, str]]:
    for (who, producer), places in product(WHO.items(), ({PLACE: None}, {OTHER: None}, {PLACE: None, OTHER: None})):
        if producer is not None:
            found = verify(known, producer, places)
            yield f"verify {len(places)}, {who}", ", ".join(f"{at[1]} {error.name}" for at, error in found.items())
            for version in (0, 2):
                yield (
                    f"add {list(places)}, {who} at {version}",
                    shown(decide_add(known, producer, places, version, NOW_MS)),
                )


def by_itself(known: Transaction | None) -> Iterator[tuple[str, str]]:
    """As time goes on, and when all partitions have their markers."""
    if known is not None and known.is_prepared:
        for version in (1, 2):
            yield f"completed {version}", shown(known.replace(client_version=version).completed(NOW_MS))
    for now_ms, version, fresh in product((1_000, 1_001, 1_002, NOW_MS), (1, 2), (None, FRESH)):
        at = f"at {version}{'' if fresh is None else ' with an id'}"
        yield f"time-out {now_ms} {at}", shown(decide_timeout(known, Moment(now_ms, version, fresh)))


def lines() -> Iterator[str]:
    for name, known in transactions():
        yield name
        same: dict[str, list[str]] = {}
        for question, decision in (*questions(known), *about_partitions(known), *by_itself(known)):
            same.setdefault(decision, []).append(question)
        for decision, those in same.items():
            yield f"  {decision}"
            yield f"    {len(those)}: {'; '.join(those[:6])}" + (f"; … {checksum(those)}" if len(those) > 6 else "")
        yield ""


def checksum(those: list[str]) -> str:
    """Of all: the first are named."""
    return f"{crc32('; '.join(those).encode()):08x}"


def test_it_is_as_written(request: pytest.FixtureRequest) -> None:
    text = "\n".join(lines()).rstrip() + "\n"
    if request.config.getoption("--rewrite", default=False):
        EXPECTED.write_text(text, encoding="utf-8")
    assert text == EXPECTED.read_text(encoding="utf-8"), "pytest tests/golden --rewrite writes it anew"
