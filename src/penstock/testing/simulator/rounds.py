"""Rounds of compaction in a simulation: in its own process, on the simulated disk, step by step."""

import asyncio
from collections.abc import AsyncIterator, Iterator

from penstock.log.compaction.cleaning import run_round
from penstock.log.compaction.plain_keys import PlainKeys
from penstock.log.compaction.rounds import Moved, Round, Step
from penstock.log.disk import Disk


class CleaningThreads:
    """Each step is a thread's work on the node's own disk, one after the other."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    async def run(self, work: Round, bytes_per_s: float) -> AsyncIterator[Step]:
        loop = asyncio.get_running_loop()
        steps: Iterator[Step] = run_round(work, PlainKeys(work.dedupe_bytes, work.load_factor), self._disk)
        while (step := await loop.run_in_executor(None, next, steps, None)) is not None:
            if isinstance(step, Moved):
                await asyncio.sleep(step.count / bytes_per_s)
            else:
                yield step

    async def rest(self) -> None: ...
