"""Where rounds of compaction run: in a process of their own. All that looks at records holds Python's lock, so that
threads would hold up the event loop.
"""

import asyncio
import pickle
import sys
from collections.abc import AsyncIterator
from typing import Protocol

from penstock.log.compaction.rounds import Round, Step, Summary
from penstock.log.compaction.wire import LENGTH_BYTES, Task, pack
from penstock.log.disk import Disk
from penstock.protocol.errors import ErrorCode, KafkaError

MODULE = "penstock.log.compaction.worker"


class RoundRunner(Protocol):
    """Runs one round at a time. A caller that leaves the steps before their end gives up the round."""

    def run(self, work: Round, bytes_per_s: float) -> AsyncIterator[Step]:
        """Its steps, without those that only tell of moved bytes. Raises what `run_round` raises."""
        ...

    async def rest(self) -> None:
        """Called when there is nothing to do for a while."""
        ...


class WorkerDiedError(KafkaError):
    """The process ended in the middle of a round."""


class CleaningProcess:
    """A process that is started for the first round, and ended when there is nothing to do."""

    def __init__(self, disk: Disk) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def run(self, work: Round, bytes_per_s: float) -> AsyncIterator[Step]:
        process = self._process = self._process or await _begin()
        assert process.stdin is not None
        assert process.stdout is not None
        is_over = False
        try:
            process.stdin.write(pack(Task(work, bytes_per_s)))
            while not is_over:
                length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES), "big")
                step = pickle.loads(await process.stdout.readexactly(length))
                is_over = isinstance(step, Exception | Summary)
                if isinstance(step, MemoryError):
                    raise WorkerDiedError(ErrorCode.UNKNOWN_SERVER_ERROR, "no memory is left to compact with")
                if isinstance(step, Exception):
                    raise step
                yield step
        except asyncio.IncompleteReadError:
            raise WorkerDiedError(
                ErrorCode.UNKNOWN_SERVER_ERROR, "the process that compacts ended before it was done"
            ) from None
        finally:
            if not is_over:
                await self._end()

    async def rest(self) -> None:
        await self._end()

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _begin() -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    try:
        return await asyncio.create_subprocess_exec(sys.executable, "-m", MODULE, stdin=pipe, stdout=pipe)
    except OSError as error:
        raise WorkerDiedError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"no process that compacts can be started: {error}"
        ) from error
