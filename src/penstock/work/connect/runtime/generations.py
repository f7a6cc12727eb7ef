"""Exactly once: which generation of a connector's tasks may write transactions (KIP-618).

Each commit of task configurations to the config topic begins a generation. Tasks of the one before may run still,
somewhere, so nobody begins before all of them are fenced:

| who | does what |
| --- | --- |
| the leader | fences the producers of all tasks that the last `tasks-fencing` record counts, then writes the next one |
| a task | waits for that record, becomes the producer of its transactional id, and reads the config topic to its end |
| the same | goes on only if its generation is still the last one, and the task its worker's: else it ends |

A task of an older generation that becomes a producer after it was fenced finds the later commit in the config topic,
for that lies before the fencing. Of two workers that have a task of one generation, the later one fences the other.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from penstock.work.connect.runtime.config_state import ConfigState
from penstock.work.connect.runtime.logs import WorkerLog
from penstock.work.connect.runtime.supervisor import pause

LOOK_S: Final = 0.1
"""How often a task looks whether the older ones are fenced."""


class FencedError(Exception):
    """The task belongs to another worker by now: nothing of it is stored."""


class Generations:
    def __init__(self, group_id: str, state: ConfigState, log: WorkerLog) -> None:
        """`log` is the one of which `state` is made."""
        self._group_id = group_id
        self._state = state
        self._log = log

    def transactional_id(self, connector: str, task: int) -> str:
        return f"{self._group_id}-{connector}-{task}"

    def of(self, connector: str) -> int:
        return self._state.generations.get(connector, 0)

    async def may_begin(self, connector: str, stopping: asyncio.Event) -> bool:
        """Wait until older tasks are fenced; False if it is to stop instead."""
        while connector in self._state.unfenced and not stopping.is_set():
            await pause(stopping, LOOK_S)
        return not stopping.is_set()

    async def verify(self, connector: str, generation: int, owned_until_s: Callable[[], float]) -> None:
        """Called as soon as the task is the producer of its id; FencedError, TimeoutError."""
        await self._log.read_to_end()
        if self.of(connector) != generation:
            raise FencedError(f"{connector} has other tasks by now: those of the next generation begin")
        if asyncio.get_running_loop().time() >= owned_until_s():
            raise FencedError(f"tasks of {connector} that this worker had may run elsewhere by now")
