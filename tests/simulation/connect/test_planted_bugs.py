"""Bugs that are planted must be found: otherwise a simulation without violations proves nothing."""

import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.simulation.connect.world import simulate

from penstock.work.connect.built_in.sql_source import SqlSourceTask
from penstock.work.connect.runtime.running_sink import RunningSink
from penstock.work.connect.runtime.running_tasks import RunningSource
from penstock.work.connect.runtime.transactional_source import TransactionalSource


def plant(monkeypatch: pytest.MonkeyPatch, method: Callable[..., Any], sound: str, broken: str) -> None:
    """Replaces these words in the source of a method."""
    source = textwrap.dedent(inspect.getsource(method))
    assert sound in source
    namespace: dict[str, Any] = {}
    exec(source.replace(sound, broken), method.__globals__, namespace)
    owner, _, name = method.__qualname__.rpartition(".")
    monkeypatch.setattr(method.__globals__[owner], name, namespace[name])


def is_found(what: str, first: int = 0, *, is_exact: bool = False) -> bool:
    """Whether one of some seeds finds this; `first` did last time."""
    seeds = (first, *range(30))
    return any(what in violation for seed in seeds for violation in simulate(seed, is_exact=is_exact).violations)


def test_a_source_that_moves_on_with_what_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = SqlSourceTask._rows

    def moving(self: SqlSourceTask, name: str) -> Iterator[Any]:
        for one in rows(self, name):
            self._here[name] = self._returned[name] = one.here
            yield one

    monkeypatch.setattr(SqlSourceTask, "_rows", moving)
    assert is_found("not in its topic")


def test_offsets_that_are_stored_before_their_records(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, RunningSource._take, "moved_on(record, delivery)", "moved_on(record, None)")
    assert is_found("not in its topic", first=22)


def test_positions_that_are_committed_before_what_the_sink_has_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, RunningSink._flush, "await self._deliveries.settled()\n", "pass\n")
    assert is_found("not in the other topic", first=11)


def test_positions_that_are_committed_before_the_sink_has_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, RunningSink._flush, "_safe(await self._call(self._task.flush, offsets), offsets)", "offsets")
    assert is_found("not in the holding sink")


def test_a_safe_position_that_forgets_what_lies_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, RunningSink._flush, "if to.offset >= self._done[partition]:", "if True:")
    assert is_found("has committed")


def test_records_that_were_not_taken_and_count_as_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunningSink, "_give_back", lambda *_: None)
    assert is_found("topic in, not in")


STORED = textwrap.indent(
    textwrap.dedent("""
    for key, value in self._host.rows(list(self._offsets.values())):
        await producer.send(self._offsets_topic, value, key=key)
    """).lstrip("\n"),
    "    ",
)


def test_offsets_that_are_stored_before_the_transaction_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = "    await self._host.store(list(self._offsets.values()))\n"
    plant(monkeypatch, TransactionalSource._commit, STORED, alone)
    assert is_found("not in its topic", first=29, is_exact=True)


@pytest.mark.soak
def test_offsets_that_are_stored_after_the_transaction_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    committed = "    await producer.commit_transaction()\n"
    after = f"{committed}    await self._host.store(list(self._offsets.values()))\n"
    plant(monkeypatch, TransactionalSource._commit, f"{STORED}{committed}", after)
    assert is_found("twice", first=6, is_exact=True)
