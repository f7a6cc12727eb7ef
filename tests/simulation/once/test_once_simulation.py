"""Each row is there once, whatever fails at which step; and the simulation finds bugs that a person might write."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import NamedTuple

import pytest
from tests.simulation.once import drivers
from tests.simulation.once import simulate as simulate_module
from tests.simulation.once.cluster import Cluster
from tests.simulation.once.simulate import simulate

from penstock.client.values import TransactionName
from penstock.pipeline.once import deciding, names
from penstock.pipeline.once.deciding import End, Write, settling
from penstock.pipeline.once.decision import Decision, decode_decision

SEEDS, MOST_SEEDS = 150, 300


def test_each_row_is_there_once() -> None:
    worlds = [simulate(seed) for seed in range(SEEDS)]
    assert min(world.checkpoint.done for world in worlds) > 3
    assert sum(world.runs for world in worlds) > 10 * SEEDS


def test_without_two_phases_what_is_lost_is_noticed() -> None:
    worlds = [simulate(seed, keeps=False) for seed in range(SEEDS)]
    assert 0 < sum(bool(world.lost) for world in worlds) < SEEDS


@pytest.mark.soak
def test_each_row_is_there_once_at_many_seeds() -> None:
    for seed in range(5_000):
        simulate(10_000 + seed, keeps=bool(seed % 4))


class Bug(NamedTuple):
    module: ModuleType
    right: str
    wrong: str
    keeps: bool = True


ABORTS_LEFT = """    for transaction in left:
        if transaction not in decision.transactions:
            yield End(transaction, commits=False)
"""
IN_TEXT = {
    "aborts before it has decided": Bug(
        deciding,
        "        is_in_time = yield Write(decision)\n",
        "        for one in left:\n"
        "            if one not in prepared:\n"
        "                yield End(one, commits=False)\n"
        "        is_in_time = yield Write(decision)\n",
    ),
    "goes on with what it came too late to decide": Bug(
        deciding, "        if not is_in_time:\n", "        if False:\n"
    ),
    "what is found is taken for ours": Bug(
        deciding,
        "    if decision is None:\n",
        "    if decision is None or not set(prepared) & set(decision.transactions):\n",
    ),
    "commits before it has decided": Bug(
        deciding,
        "        is_in_time = yield Write(decision)\n",
        "        for one in prepared:\n"
        "            yield End(one, commits=True)\n"
        "        is_in_time = yield Write(decision)\n",
    ),
    "who finds a decision ends all that is open": Bug(
        deciding,
        "    if decision is None:\n",
        "    if decision is not None:\n        left = (*left, *(yield ListOpen()))\n    if decision is None:\n",
    ),
    "lists what is open when it has decided and carried it out": Bug(
        deciding,
        "    for transaction in left:\n",
        "    for transaction in (*left, *(yield ListOpen())):\n",
    ),
    "gives up what is decided": Bug(
        deciding,
        "        if decision is None or transaction not in decision.transactions:\n",
        "        if True:\n",
    ),
    "gives up what may be decided yet": Bug(
        deciding,
        """    yield Fence()
    decision = _about(batch, (yield Look()))
    for transaction in prepared:
""",
        "    decision = _about(batch, (yield Look()))\n    for transaction in prepared:\n",
    ),
    "leaves what it did not decide for": Bug(deciding, ABORTS_LEFT, ""),
    "does not look whether it is decided": Bug(
        deciding, "_about(batch, last), tuple(prepared)\n", "None, tuple(prepared)\n"
    ),
    "goes on when what was decided is lost": Bug(
        deciding, "        if not is_committed:\n", "        if False:\n", keeps=False
    ),
    "a run that ends leaves what is open": Bug(
        deciding, "    still_open: Sequence[TransactionName] = yield ListOpen()\n", "    still_open = ()\n"
    ),
    "a run that ends says nobody what it aborts": Bug(
        deciding, "        yield Write(last.replace(aborted=aborted))\n", "        pass\n"
    ),
    "what a run has aborted at its end is decided with": Bug(
        deciding, " if one not in left or one in settled]", " if one not in left]"
    ),
    "a run that ends aborts what is decided": Bug(
        deciding, "commits=transaction in last.transactions)", "commits=False)"
    ),
    "a task takes the id of the same batch": Bug(names, "if last < batch", "if last <= batch"),
    "a task takes its id again and again": Bug(names, "next(free, len(self._batches))", "0"),
}


def test_what_earlier_runs_have_aborted_is_over_before_it_is_not_written_down_any_more() -> None:
    """The order to abort it may be under way still; and a run that fails each time must not write ever more down."""
    earlier, later, committed = (TransactionName(name, 1, 0, True) for name in ("earlier", "later", "committed"))
    last = Decision(7, (committed,), (earlier,))
    steps = settling()
    answers: list[object] = [None, None, last, [later], True]
    *_, ended, written = [steps.send(answer) for answer in answers]
    assert ended == End(earlier, commits=False)
    assert written == Write(Decision(7, (committed,), (later,)))
    assert decode_decision(last.encode()) == last


def found(*, keeps: bool) -> bool:
    for seed in range(MOST_SEEDS):
        try:
            simulate(seed, keeps=keeps)
        except AssertionError:
            return True
    return False


@pytest.mark.parametrize("what", IN_TEXT)
def test_a_planted_bug_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = IN_TEXT[what]
    source = inspect.getsource(bug.module)
    assert source.count(bug.right) == 1
    wrong = dict(vars(bug.module))
    exec(compile(source.replace(bug.right, bug.wrong), bug.module.__name__, "exec"), wrong)
    monkeypatch.setattr(simulate_module, "LostError", wrong.get("LostError", deciding.LostError))
    for name in set(wrong) & set(vars(drivers)) - {"__builtins__", "__name__"}:
        monkeypatch.setattr(drivers, name, wrong[name])
    assert found(keeps=bug.keeps)


def test_that_two_may_decide_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "fence", lambda cluster: cluster.decider_epoch)
    assert found(keeps=True)


def test_that_a_prepared_transaction_times_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    time_out = Cluster.time_out

    def any_of_them(cluster: Cluster, name: str) -> None:
        cluster.keeps = False
        time_out(cluster, name)
        cluster.keeps = True

    monkeypatch.setattr(Cluster, "time_out", any_of_them)
    assert found(keeps=True)
