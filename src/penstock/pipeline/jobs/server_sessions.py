"""Which sessions at servers of Spark Connect may run queries of a task's sinks; it is stored with the sources' offsets.

A query elsewhere does not end with its worker. So a session is written down before it is used, and whoever has the task
next closes it before another one begins. What a dead worker has sent and nobody has read yet is refused then: a server
opens no session again that it has closed.

written down --begin--> may run queries --its server says that it is closed--> forgotten
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from penstock.protocol.value import Value

Position = Mapping[str, Any]
MOST_KEPT: Final = 8
"""Of a sink: those at servers that nobody has reached since. Spark ends a session that nobody uses after an hour."""


class ServerSession(Value):
    """`server` is the public part of its address; `generation` that of the group of workers."""

    server: str
    session: str
    generation: int


class ServerSessions:
    def __init__(self, stored: Mapping[str, Position | None]) -> None:
        """By sinks."""
        self._of_sinks = {sink: _sessions(position) for sink, position in stored.items()}

    @property
    def known(self) -> list[ServerSession]:
        """Each once, the oldest first."""
        return list(dict.fromkeys(one for sessions in self._of_sinks.values() for one in sessions))

    def newer_than(self, generation: int) -> ServerSession | None:
        """One of a later generation: the task is somebody else's by now."""
        return next((one for one in self.known if one.generation > generation > 0), None)

    def begin(self, session: ServerSession) -> None:
        for sink, sessions in self._of_sinks.items():
            self._of_sinks[sink] = (*sessions, session)[-MOST_KEPT:]

    def forget(self, closed: Iterable[str]) -> None:
        """Those of which their servers have said that they are closed."""
        gone = set(closed)
        for sink, sessions in self._of_sinks.items():
            self._of_sinks[sink] = tuple(one for one in sessions if one.session not in gone)

    def positions(self) -> list[tuple[Position, Position]]:
        """What is to be stored."""
        return [(partition_of(sink), _position(sessions)) for sink, sessions in self._of_sinks.items()]


def partition_of(sink: str) -> Position:
    return {"sink": sink}


def _position(sessions: Sequence[ServerSession]) -> Position:
    return {"sessions": [[one.server, one.session, one.generation] for one in sessions]}


def _sessions(position: Position | None) -> tuple[ServerSession, ...]:
    found = (position or {}).get("sessions") or ()
    return tuple(ServerSession(str(server), str(session), int(number)) for server, session, number in found)
