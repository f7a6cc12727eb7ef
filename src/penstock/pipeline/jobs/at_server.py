"""Tasks whose queries run at a server of Spark Connect that others keep: what is beside the process that watches them.

That process is `penstock pipeline run` as for any task, without Java; it begins the queries in a session at the server.
Where it was killed its queries go on there, so another process closes their session: at once if the worker lives, else
for whoever has the task next, before that begins anything.
"""

import asyncio
import json
import logging
import math
import sys
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from penstock.client.errors import ConnectionFailedError
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs.child import GuardedProcess, Listener
from penstock.pipeline.jobs.commands import RUN, importing, modules_of, run_arguments
from penstock.pipeline.jobs.keys import AT_SERVER, DRAIN_MS, KEYS
from penstock.pipeline.jobs.launching import Run
from penstock.pipeline.jobs.report import JobReport
from penstock.pipeline.jobs.server_sessions import ServerSession, ServerSessions
from penstock.pipeline.server_address import USER, server_address
from penstock.work.connect.api import SourceContext
from penstock.work.connect.config import parse
from penstock.work.connect.runtime.kinds import SHUTDOWN

logger = logging.getLogger(__name__)

CLOSE: Final = (sys.executable, "-m", "penstock.cli.work.close_sessions")
CLOSED_WITHIN_S: Final = 30.0
"""Then a server that does not answer is taken to be out of reach."""
LOOK_EVERY_S: Final = 0.05


class Fence:
    """Of one task. It does nothing for one that has never been at a server."""

    def __init__(self, sinks: Collection[str] | None, context: SourceContext, server: str | None) -> None:
        """`sinks` are the task's, or None for all of a job; `server` is the whole address of its server, or None."""
        self._context, self._server = context, None if server is None else server_address(server)
        self._sessions = ServerSessions(context.offsets(), sinks)
        self.session: ServerSession | None = None

    async def begin(self, report: JobReport) -> None:
        """Nothing that was begun before can write from now on. ConnectionFailedError where that is not known of the
        server at which the task begins, PipelineError where somebody else has the task.
        """
        newer = self._sessions.newer_than(self._context.generation)
        if newer is not None:
            await self._until_asked(newer)
        await self.close_all(report)
        if self._server is not None:
            mine = ServerSession(str(self._server.public), str(uuid.uuid4()), self._context.generation)
            await self._context.store(self._sessions.begin(mine))
            self.session = mine

    async def close_all(self, report: JobReport) -> None:
        """ConnectionFailedError where that is not known of its server."""
        await self._close(self._sessions.known, report)

    async def _until_asked(self, newer: ServerSession) -> None:
        """A group that nobody was in is forgotten, and counts from 1 again: its next answer to this worker tells
        whether the task is still its own. PipelineError where none comes in time.
        """
        known_s = self._context.owned_until_s()
        while self._context.owned_until_s() <= known_s < math.inf:
            if time.monotonic() >= self._context.owned_until_s():
                raise PipelineError(
                    f"{newer.server} runs the queries of this task for generation {newer.generation} of the workers, "
                    f"and this one has it of generation {self._context.generation}"
                )
            await asyncio.sleep(LOOK_EVERY_S)

    def launch(self, config: Mapping[str, str], owned_until_s: Callable[[], float], listener: Listener) -> Run:
        """The process that watches queries in the session that was begun, and takes the job's modules there."""
        assert self.session is not None
        patience_ms = float(config.get(SHUTDOWN.name, DRAIN_MS))
        places = [str(modules) for modules in [modules_of(config)] if modules is not None]
        said = {
            "server": str(self._server),
            "session": self.session.session,
            "patience_s": patience_ms / 1000,
            "modules": places,
        }
        command = [*RUN, "run", *run_arguments(config)]
        given = parse(KEYS, config)["pipeline"] or ""
        environment = {AT_SERVER: json.dumps(said), **importing(places)}
        return GuardedProcess(command, given, owned_until_s, listener, environment)

    async def end(self, report: JobReport) -> None:
        """After the process has ended: its session is closed, if it has not done so itself."""
        session, self.session = self.session, None
        if session is None:
            return
        if session.session in report.closed:
            await self._forget(report.closed)
            return
        try:
            await self._close([session], report)
        except ConnectionFailedError as error:
            logger.warning("%s. Its queries end when the task begins again, or after an hour", error)

    async def _close(self, sessions: Sequence[ServerSession], report: JobReport) -> None:
        if not sessions or time.monotonic() >= self._context.owned_until_s():
            return
        given = json.dumps([[self._address_of(one), one.session] for one in sessions])
        process = GuardedProcess(CLOSE, given, self._context.owned_until_s, report)
        deadline_s = time.monotonic() + CLOSED_WITHIN_S
        try:
            while process.is_alive and time.monotonic() < deadline_s:
                await asyncio.sleep(LOOK_EVERY_S)
                process.renew()
        finally:
            process.kill()
        await process.last_words()
        left = [one for one in sessions if one.session not in report.closed]
        if len(left) < len(sessions):
            await self._forget(report.closed)
        for one in left:
            place = server_address(one.server).place
            said = f"{place} does not say that it has closed session {one.session}: {report.why_open(one.session)}"
            if self._server is not None and self._server.place == place:
                raise ConnectionFailedError(said)
            logger.warning("%s. A query that lives there ends when this one has written its batch", said)

    def _address_of(self, session: ServerSession) -> str:
        """With what the task's own address says beside the place, where it is the same place; the user is that of the
        session, as another one's of the same id is another session.
        """
        its = server_address(session.server)
        if self._server is None or self._server.place != its.place:
            return str(its)
        return str(self._server.saying(USER, its.user))

    async def _forget(self, closed: Collection[str]) -> None:
        await self._context.store(self._sessions.forget(closed))

    def as_json(self) -> dict[str, Any]:
        one = self.session
        return {} if one is None else {"server": one.server, "session": one.session, "generation": one.generation}
