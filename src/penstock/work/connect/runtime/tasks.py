"""The tasks that a worker has been given: those run whose configuration is known, as it is now."""

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from penstock.work.connect.config import parse
from penstock.work.connect.jobs import Kept, Runnable, State
from penstock.work.connect.making import KEYS, Around, new_task
from penstock.work.connect.metrics import Metric
from penstock.work.connect.runtime.config_state import ConfigState
from penstock.work.connect.runtime.keepers import Keeper, Wanted, told
from penstock.work.connect.runtime.records import TASK, TaskId, parse_task
from penstock.work.connect.runtime.source_offsets import SourceOffsets, TaskOffsets
from penstock.work.connect.runtime.statuses import Statuses


class Tasks:
    """The runner of the worker's group. `ended` is told of each task that has been let go."""

    def __init__(
        self,
        state: ConfigState,
        statuses: Statuses,
        offsets: SourceOffsets,
        around: Around,
        now_ms: Callable[[], int],
        owned_until_s: Callable[[], float],
        *,
        is_tracking: bool,
    ) -> None:
        self.ended: Callable[[str], None] = lambda _: None
        self.on_complaint: Callable[[str], None] = lambda _: None
        self._state = state
        self._statuses = statuses
        self._offsets = offsets
        self._around = around
        self._now_ms = now_ms
        self._owned_until_s = owned_until_s
        self._is_tracking = is_tracking
        self._keepers: dict[str, Keeper] = {}
        self._lives: dict[str, int] = {}
        self._ending: set[asyncio.Task[None]] = set()

    # Runner

    def complain(self, reason: str) -> None:
        """See Runner."""
        self.on_complaint(reason)

    def start(self, task: str) -> None:
        """See Runner."""
        task_id = _id_of(task)
        self._statuses.tell_task(task_id, State.UNASSIGNED)
        self._keepers[task] = Keeper(
            task,
            lambda keeper, wanted: self._begin(task_id, keeper, wanted),
            lambda state: self._statuses.tell_task(task_id, state),
        )
        self._look(task)

    def stop(self, task: str) -> None:
        """See Runner."""
        is_known = self._state.task_config(task) is not None
        keeper = self._keepers[task]
        self._finish(task, keeper, keeper.give_up(State.UNASSIGNED if is_known else None))

    def abandon(self, task: str) -> None:
        """See Runner."""
        keeper = self._keepers.get(task)
        if keeper is not None:
            keeper.fence()
            self._finish(task, keeper, keeper.fenced())

    def _finish(self, task: str, keeper: Keeper, ending: Coroutine[Any, Any, None]) -> None:
        async def finish() -> None:
            await ending
            if self._keepers.get(task) is keeper:
                del self._keepers[task]
                self.ended(task)

        finishing = asyncio.create_task(finish(), name=f"end of {task}")
        self._ending.add(finishing)
        finishing.add_done_callback(self._ending.discard)

    # What the worker knows

    def look(self) -> None:
        """The config topic says something new."""
        for task in self._keepers:
            self._look(task)

    def runs(self, task: TaskId) -> bool:
        """Whether this worker has that task."""
        return f"{TASK}{task}" in self._keepers

    def report(self, task: TaskId) -> Mapping[str, Any]:
        """What a task that this worker has tells of itself."""
        keeper = self._keepers[f"{TASK}{task}"]
        return keeper.kept.report() if keeper.kept is not None else {}

    def metrics(self) -> list[Metric]:
        """The figures of all tasks that run here, with the task among their labels."""
        figures: list[Metric] = []
        for task, keeper in self._keepers.items():
            of = {"connector": _id_of(task).connector, "task": str(_id_of(task).number)}
            of_task = keeper.kept.metrics() if keeper.kept is not None else ()
            figures += [figure.replace(labels={**of, **figure.labels}) for figure in of_task]
        return figures

    def restart(self, task: TaskId) -> None:
        """Start it again, whatever it does."""
        name = f"{TASK}{task}"
        if name in self._keepers:
            self._lives[name] = self._lives.get(name, 0) + 1
            self._statuses.tell_task(task, State.RESTARTING)
            self._look(name)

    def _look(self, task: str) -> None:
        config = self._state.task_config(task)
        if config is None:
            self._keepers[task].want(None)
            return
        target = self._state.connectors[_id_of(task).connector].target
        self._keepers[task].want(Wanted(config, target, self._lives.get(task, 0)))

    def _begin(self, task: TaskId, keeper: Keeper, wanted: Wanted) -> Kept:
        store = TaskOffsets(self._offsets, lambda: not keeper.is_fenced)

        def on_topic(topic: str) -> None:
            if self._is_tracking:
                self._statuses.tell_topic(task, topic, self._now_ms())

        def tell(state: State, trace: str) -> None:
            if not keeper.is_fenced:
                self._statuses.tell_task(task, state, trace)

        def make() -> Runnable:
            return new_task(wanted.config, task.number, self._around, store, on_topic, owned_until_s)

        def owned_until_s() -> float:
            return -math.inf if keeper.is_fenced else self._owned_until_s()

        return Kept(
            f"task {task}",
            make,
            parse(KEYS, wanted.config)["task.restarts.max"],
            self._around.shutdown_timeout_s,
            told(tell, lambda: keeper.kept),
        )


def _id_of(task: str) -> TaskId:
    found = parse_task(task.removeprefix(TASK))
    assert found is not None
    return found
