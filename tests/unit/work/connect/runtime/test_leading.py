"""What the worker that leads writes to the config topic: all that belongs together, or nothing."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from penstock.work.connect.providers import Resolved
from penstock.work.connect.runtime.config_state import ConfigState
from penstock.work.connect.runtime.leading import Leading, NotLeadingError
from penstock.work.connect.runtime.records import Target
from penstock.work.connect.runtime.statuses import Statuses
from penstock.work.connect.standalone.logs import MemoryLog

CHANGES: dict[str, Callable[[Leading], Awaitable[None]]] = {
    "made": partial(Leading.put_connector, name="c", config={}, target=Target.PAUSED),
    "deleted": partial(Leading.delete_connector, name="c"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize(("leads", "written"), [(1, {"connector-c", "target-state-c"}), (0, set())])
async def test_a_change_is_written_whole_or_not_at_all(
    change: Callable[[Leading], Awaitable[None]], leads: int, written: set[str]
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
    assert set(keys) == written
