"""What the worker that leads writes to the config topic: all that belongs together, or nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from penstock.client.providers import Resolved
from penstock.work.connect.runtime.config_state import ConfigState
from penstock.work.connect.runtime.leading import Leading
from penstock.work.connect.runtime.logs import NotLeadingError
from penstock.work.connect.runtime.records import Target
from penstock.work.connect.runtime.statuses import Statuses
from penstock.work.connect.runtime.supervisor import RunState
from penstock.work.connect.standalone.logs import MemoryLog

CHANGES: dict[str, Callable[[Leading], Awaitable[None]]] = {
    "made": partial(Leading.put_connector, name="c", config={}, target=Target.PAUSED),
    "deleted": partial(Leading.delete_connector, name="c"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("leads", [1, 0])
async def test_a_change_is_written_whole_or_not_at_all(
    change: Callable[[Leading], Awaitable[None]], leads: int
) -> None:
    """It leads as it is asked, and not when it is asked again: workers rebalance meanwhile."""
    keys: list[str] = []
    answers = iter([True] * leads)
    log = MemoryLog(lambda key, value, offset: keys.append(key.decode()), lambda: None)
    statuses = Statuses("one:1", lambda key, value: None)
    leading = Leading(ConfigState(), log, statuses, 1.0, lambda: next(answers, False), Resolved)
    try:
        await change(leading)
    except NotLeadingError:
        assert not leads
    written = set(keys) - {"commit-c"}
    assert written == ({"connector-c", "target-state-c"} if leads else set())


async def test_a_restart_is_for_a_connector_that_runs_here() -> None:
    state, posted = ConfigState(), [b""]

    def on_record(key: bytes, value: bytes | None, _: int) -> None:
        state.apply(key.decode(), value)

    log = MemoryLog(on_record, lambda: None)
    statuses = Statuses("one:1", lambda key, value: posted.append(value or b""))
    leading = Leading(state, log, statuses, 1.0, lambda: True, Resolved)
    await leading.lead()
    await leading.put_connector("c", {"name": "c"}, Target.PAUSED)
    leading.look()
    leading.restart("d")
    assert b"RESTARTING" not in posted[-1]
    leading.restart("c")
    assert b"RESTARTING" in posted[-1]
    await leading.retire()
    leading.restart("c")
    leading.look()
    leading.restart("c")
    assert b"".join(posted).count(b"RESTARTING") == 1, "it runs where another worker leads"


async def test_who_leads_forgets_what_no_connector_is_known_to_be() -> None:
    posted: dict[bytes, bytes | None] = {}
    statuses = Statuses("one:1", lambda key, value: posted.update({key: value}))
    statuses.tell_connector("gone", RunState.RUNNING)
    for may_write in (False, True):
        log = MemoryLog(lambda *_: None, lambda: None)
        leading = Leading(ConfigState(), log, statuses, 1.0, lambda may=may_write: may, Resolved)  # type: ignore[misc]
        try:
            await leading.lead()
        except NotLeadingError:
            assert not may_write
        assert leading.leads is may_write
        assert statuses.connectors() == ([] if may_write else ["gone"])


async def test_what_a_connector_was_is_forgotten_with_it() -> None:
    state = ConfigState()

    def on_record(key: bytes, value: bytes | None, _: int) -> None:
        state.apply(key.decode(), value)

    statuses = Statuses("one:1", lambda key, value: None)
    log = MemoryLog(on_record, lambda: None)
    leading = Leading(state, log, statuses, 1.0, lambda: True, Resolved)
    await leading.lead()
    await leading.put_connector("c", {"name": "c"}, Target.PAUSED)
    leading.look()
    statuses.tell_connector("c", RunState.PAUSED)
    assert statuses.connectors() == ["c"]
    await leading.delete_connector("c")
    leading.look()
    await asyncio.gather(*leading._dropping)
    assert statuses.connectors() == []
    await leading.retire()


async def test_nothing_of_a_deleted_connector_stays_in_the_topic() -> None:
    """Compaction takes away what has no value, and nothing else."""
    state, rows = ConfigState(), dict[str, bytes | None]()

    def on_record(key: bytes, value: bytes | None, _: int) -> None:
        rows[key.decode()] = value
        state.apply(key.decode(), value)

    log = MemoryLog(on_record, lambda: None)
    leading = Leading(state, log, Statuses("one:1", lambda key, value: None), 1.0, lambda: True, Resolved)
    config = {"name": "c", "connector.class": "FileStreamSourceConnector"}
    for name in ("c", "other"):
        await leading.put_connector(name, config, Target.STARTED)
        for count in (3, 1):  # the tasks that it had before, too
            await leading.publish(name, config, [{"n": str(number)} for number in range(count)])
    await leading.delete_connector("c")
    assert {key for key, value in rows.items() if value is not None} == {
        *("connector-other", "target-state-other", "commit-other"),
        *("task-other-0", "task-other-1", "task-other-2"),
    }
    assert list(state.task_rows) == ["other"]
