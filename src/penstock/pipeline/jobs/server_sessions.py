"""Which sessions at servers of Spark Connect may run queries of a task's sinks; it is stored with the sources' offsets.

A query elsewhere does not end with its worker. So a session is written down before it is used, and whoever has the task
next closes it before another one begins. What a dead worker has sent and nobody has read yet is refused then: a server
opens no session again that it has closed.

written down --begin--> may run queries --its server says that it is closed--> forgotten

Each session of a sink is a partition of its own, so that a worker that stood still while it wrote takes nothing away
from the next one: what comes late is one more session, or is about one that was closed.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from penstock.protocol.value import Value

Position = Mapping[str, Any]
Changes = list[tuple[Position, Position | None]]
MOST_KEPT: Final = 8
"""Of a sink: those at servers that nobody has reached since. Spark ends a session that nobody uses after an hour."""


class ServerSession(Value):
    """`server` is the public part of its address; `generation` that of the group of workers."""

    server: str
    session: str
    generation: int


class ServerSessions:
    def __init__(self, stored: Iterable[tuple[Position, Position]], sinks: Collection[str] | None = None) -> None:
        """Of all that is stored, that of these sinks, or of all. A task has some of its job's."""
        self._of_sinks: dict[str, dict[str, ServerSession]] = {sink: {} for sink in sinks or ()}
        for partition, offset in stored:
            sink, session = partition.get("sink"), partition.get("session")
            if session is not None and (sinks is None or sink in sinks):
                one = ServerSession(str(offset["server"]), str(session), int(offset["generation"]))
                self._of_sinks.setdefault(str(sink), {})[one.session] = one

    @property
    def known(self) -> list[ServerSession]:
        """Each once, the oldest first."""
        by_id: dict[str, ServerSession] = {}
        for sessions in self._of_sinks.values():
            by_id |= sessions
        return list(by_id.values())

    def newer_than(self, generation: int) -> ServerSession | None:
        """One of a later generation: the task is somebody else's by now."""
        return next((one for one in self.known if one.generation > generation > 0), None)

    def begin(self, one: ServerSession) -> Changes:
        """Returns what is to be stored."""
        changes: Changes = []
        for sink, sessions in self._of_sinks.items():
            sessions[one.session] = one
            changes.append((_partition(sink, one.session), {"server": one.server, "generation": one.generation}))
            for session in list(sessions)[:-MOST_KEPT]:
                del sessions[session]
                changes.append((_partition(sink, session), None))
        return changes

    def forget(self, closed: Iterable[str]) -> Changes:
        """Those of which their servers have said that they are closed. Returns what is to be stored."""
        return [
            (_partition(sink, session), None)
            for session in closed
            for sink, sessions in self._of_sinks.items()
            if sessions.pop(session, None) is not None
        ]


def _partition(sink: str, session: str) -> Position:
    return {"sink": sink, "session": session}
