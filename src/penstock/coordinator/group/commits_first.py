"""Members commit what they have processed before their coordinator goes to another node.

| a member | what happens | what follows |
| --- | --- | --- |
| to be asked | it sends a heartbeat | the answer asks it: asked |
| asked | it sends another one | it is asked again |
| asked | it commits, whatever that is, and the records are committed | done |
| either | it leaves, or its session has ended | done |

It is over when all are done, or the time is up; the client that asked for it hears how many are not. Only members that
say in their heartbeats that they commit when asked take part, so no client waits for one that does not know of this.
"""

from collections.abc import Iterable
from typing import Any

from penstock.coordinator.effects import Token
from penstock.coordinator.machine import Agenda
from penstock.coordinator.timers import Timer

Key = tuple[str, str]
"""A group, and the id of a member."""


class CommitsFirst:
    """No member is asked before `begin`."""

    def __init__(self, agenda: Agenda[Any]) -> None:
        self._agenda = agenda
        self._missing: dict[Key, bool] = {}
        """Members that are not done, and whether they were asked."""
        self._token: Token | None = None
        self._timer: Timer | None = None

    def begin(self, token: Token, members: Iterable[Key], deadline_ms: int) -> None:
        """`token` is answered with how many members have not committed by then."""
        self.end()
        self._token, self._missing = token, dict.fromkeys(members, False)
        if self._missing:
            self._timer = Timer(self._time_is_up)
            self._agenda.timers.set(self._timer, deadline_ms)
        else:
            self.end()

    def asks(self, member: Key) -> bool:
        """A heartbeat came: whether the answer is to ask."""
        if member not in self._missing:
            return False
        self._missing[member] = True
        return True

    def was_asked(self, member: Key) -> bool:
        """Whether a commit that comes now is what the member was asked for."""
        return self._missing.get(member, False)

    def done(self, member: Key) -> None:
        """The member's commit is in the log, or it is no member any more."""
        if self._missing.pop(member, None) is not None and not self._missing:
            self.end()

    def end(self) -> None:
        token, self._token = self._token, None
        missing, self._missing = len(self._missing), {}
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.deadline_ms = None
        self._agenda.reply(token, missing)

    def _time_is_up(self, now_ms: int) -> None:
        self.end()
