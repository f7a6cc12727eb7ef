"""A process that lives only as long as a worker may keep it: started below a guardian, which ends it otherwise."""

import asyncio
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, Protocol

from penstock.pipeline.jobs import guardian

logger = logging.getLogger(__name__)

MARGIN_S: Final = 0.5
"""How long before another worker may have the task the process has ended."""
LOOK_EVERY_S: Final = 0.05
LAST_LINES_S: Final = 1.0
MOST_OF_A_LINE: Final = 1 << 20
"""In characters; of a longer line each such part is one."""


class Listener(Protocol):
    """What a process says. Called in threads of their own."""

    def event(self, said: dict[str, Any]) -> None:
        """A line of JSON."""

    def line(self, line: str) -> None:
        """Any other line."""


def take_line(line: str, listener: Listener) -> int | None:
    """Of what a command prints; returns the code with which it has ended, where the line tells that.

    A pipeline prints what it likes: JSON that is no event is a line as others are.
    """
    try:
        event = json.loads(line)
        if isinstance(event, dict):
            if "exit" in event:
                return int(event["exit"])
            listener.event(event)
            return None
    except Exception:  # also of the listener: who reads goes on, else the command would wait for room to print
        logger.debug("no event: %s", line, exc_info=True)
    listener.line(line)
    return None


class GuardedProcess:
    """`owned_until_s` says until when the process may run, by time.monotonic(). It has the worker's environment, and
    `environment` on top. Its temporary files are in a folder of its own (`TMPDIR`), which goes with it. The descriptor
    `channel` is the command's as well, by the number that `guardian.CHANNEL` says.
    """

    def __init__(
        self,
        command: Sequence[str],
        given: str,
        owned_until_s: Callable[[], float],
        listener: Listener,
        environment: Mapping[str, str] | None = None,
        channel: int | None = None,
    ) -> None:
        self.exit_code: int | None = None
        self._owned_until_s = owned_until_s
        self._listener = listener
        self._told_until_s = 0.0
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-job-"))
        variables = {**os.environ, **(environment or {}), guardian.FOLDER: str(self.folder)}
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(guardian.__file__)), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=() if channel is None else (channel,),
            env=variables | ({} if channel is None else {guardian.CHANNEL: str(channel)}),
            encoding="utf-8",
            errors="replace",
            bufsize=1,
        )
        assert self._process.stdin is not None
        self._readers = [
            threading.Thread(target=self._read, args=[pipe, take], daemon=True)
            for pipe, take in ((self._process.stdout, self._take), (self._process.stderr, listener.line))
        ]
        for reader in self._readers:
            reader.start()
        self._say({"until": self._until_s(), "input": given})

    @property
    def pid(self) -> int:
        """The leader of its process group."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether any process of its group is alive."""
        return self._process.poll() is None

    def renew(self) -> None:
        until_s = self._until_s()
        if until_s != self._told_until_s:
            self._say({"until": until_s})

    async def stop(self) -> None:
        """In good order: it may take until somebody else may have the task, or until this is cancelled, for both
        of which it is killed. It has ended when this returns.
        """
        try:
            if self.is_alive and time.monotonic() < self._until_s():
                self._say({"stop": True})
            while self.is_alive and time.monotonic() < self._until_s():
                await asyncio.sleep(LOOK_EVERY_S)
                self.renew()
        finally:
            self.kill()
        await self.last_words()

    async def last_words(self) -> None:
        """Wait until all output of an ended process was read; a process that outlives it may keep a pipe open."""
        deadline_s = time.monotonic() + LAST_LINES_S
        while any(reader.is_alive() for reader in self._readers) and time.monotonic() < deadline_s:
            await asyncio.sleep(LOOK_EVERY_S)

    def kill(self) -> None:
        """All of it has ended when this returns."""
        with suppress(ProcessLookupError, PermissionError):  # all of it has ended; macOS says it in the other way
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        threading.Thread(target=shutil.rmtree, args=[self.folder], kwargs={"ignore_errors": True}).start()
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def _until_s(self) -> float:
        return self._owned_until_s() - MARGIN_S

    def _say(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._told_until_s = message.get("until", self._told_until_s)
        with suppress(OSError, ValueError):  # it has ended: `is_alive` will tell
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()

    def _read(self, pipe: IO[str], take: Callable[[str], None]) -> None:
        with pipe:
            while line := pipe.readline(MOST_OF_A_LINE):
                take(line.rstrip("\n"))

    def _take(self, line: str) -> None:
        code = take_line(line, self._listener)
        self.exit_code = self.exit_code if code is None else code
