"""Which runs are in a shared driver, and what it is told of them.

runs --stop--> drains --its time is nearly over--> is interrupted --its time is over--> the driver is to be killed
  +--------------+-----------------------------------+------it says that the run is over------> over

A run that cannot be ended otherwise takes the driver with it: nothing else keeps its query from going on while another
worker has the task.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from penstock.protocol.value import Value

INTERRUPT_BEFORE_S: Final = 6.0
"""Tasks that are interrupted take up to four until their Python has ended."""
KILL_BEFORE_S: Final = 1.0
"""Before the time is over that a run has for its last batch; of less than twice as much it is a part."""

Message = Mapping[str, Any]


class Ending(Value):
    interrupt_at_s: float
    kill_at_s: float
    is_interrupted: bool = False


class DriverRuns:
    """Told of what happens with the time by time.monotonic(), it answers with messages for the driver."""

    def __init__(self) -> None:
        self.alive: set[int] = set()
        self._begun = 0
        self._ending: dict[int, Ending] = {}

    def begin(self, arguments: list[str], given: str) -> tuple[int, Message]:
        """The run's number, and what the driver is told: to run `penstock pipeline run` with these arguments."""
        self._begun += 1
        self.alive.add(self._begun)
        return self._begun, {"begin": self._begun, "arguments": arguments, "given": given}

    def stop(self, run: int, now_s: float, patience_s: float) -> Iterator[Message]:
        if run in self.alive and run not in self._ending:
            interrupt_s = max(patience_s - INTERRUPT_BEFORE_S, patience_s / 2)
            kill_s = max(patience_s - KILL_BEFORE_S, patience_s * 3 / 4)
            self._ending[run] = Ending(now_s + interrupt_s, now_s + kill_s)
            yield {"stop": run}

    def over(self, run: int) -> None:
        self.alive.discard(run)
        self._ending.pop(run, None)

    def due(self, now_s: float) -> Iterator[Message]:
        for run, ending in self._ending.items():
            if now_s >= ending.interrupt_at_s and not ending.is_interrupted:
                self._ending[run] = ending.replace(is_interrupted=True)
                yield {"interrupt": run}

    def is_stuck(self, now_s: float) -> bool:
        """Whether the driver is to be killed."""
        return any(now_s >= ending.kill_at_s for ending in self._ending.values())
