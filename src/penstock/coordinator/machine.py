"""What all machines have in common that live on a partition: a way to be loaded, and an agenda of what is under way.

A machine is loaded (`read` for each record of the partition, then `loaded`), serves requests (methods of its own, each
of which takes `now_ms` and returns effects), and ends with `unload`. It changes its state only when a record that it
asked to append is committed.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable

from penstock.coordinator.effects import Append, Effect, KeyValue, Note, Reply, Token
from penstock.coordinator.timers import Timers
from penstock.protocol.errors import ErrorCode

Continuation = Callable[[ErrorCode, int], None]
"""What to do when a write has ended: committed (NONE) or failed. The second argument is `now_ms`."""


Answer = Callable[[ErrorCode], object]
"""What a client is told of a write that has ended (NONE: is committed)."""


def nothing(error: ErrorCode, now_ms: int) -> None:
    """The continuation of a write whose end changes nothing."""


def nothing_to_say(error: ErrorCode) -> None:
    """The answer of a write for which nobody waits."""


class _Write:
    """A write that is under way, and what comes of it. `token` is None once it is answered."""

    __slots__ = ("answer", "then", "token", "when_late")

    def __init__(self, then: Continuation, when_late: Continuation, token: Token | None, answer: Answer) -> None:
        self.then = then
        self.when_late = when_late
        self.token = token
        self.answer = answer


class Agenda:
    """What is under way in a machine: timers, writes that are not committed, and the effects since it was last asked.

    A write that is neither committed nor failed after `write_timeout_ms` is late: whoever waits for it is told so, and
    its end, which may still come, counts all the same.
    """

    def __init__(self, write_timeout_ms: int) -> None:
        self.timers = Timers()
        self._write_timeout_ms = write_timeout_ms
        self._effects: list[Effect] = []
        self._writes: dict[int, _Write] = {}
        self._late: deque[tuple[int, int]] = deque()
        """When writes will be late, and their ids, in order; those that have ended are dropped when they come up."""
        self._next_write_id = 0

    # -- effects ------------------------------------------------------------------------------------------------------

    def reply(self, token: Token | None, response: object) -> None:
        """Answer a request, if one waits."""
        if token is not None:
            self._effects.append(Reply(token, response))

    def note(self, line: str) -> None:
        """Have a line written into the node's log."""
        self._effects.append(Note(line))

    def take_effects(self) -> list[Effect]:
        """What has come up since the last time, in order."""
        effects, self._effects = self._effects, []
        return effects

    # -- writes -------------------------------------------------------------------------------------------------------

    def append(
        self,
        records: list[KeyValue],
        then: Continuation,
        now_ms: int,
        *,
        when_late: Continuation = nothing,
        token: Token | None = None,
        answer: Answer = nothing_to_say,
    ) -> None:
        """Ask for a write. `then` runs once, when it has ended, and before that perhaps `when_late`.

        `token` is answered with `answer(error)`: when the write has ended, or is late.
        """
        write_id = self._next_write_id
        self._next_write_id += 1
        self._writes[write_id] = _Write(then, when_late, token, answer)
        self._late.append((now_ms + self._write_timeout_ms, write_id))
        self._effects.append(Append(write_id, records))

    def written(self, write_id: int, error: ErrorCode, now_ms: int) -> None:
        """A write is committed (NONE) or has failed."""
        write = self._writes.pop(write_id)
        write.then(error, now_ms)
        self.reply(write.token, write.answer(error))

    def fail_writes(self, error: ErrorCode, now_ms: int) -> None:
        """The writes that are under way will not be reported on: they count as failed."""
        while self._writes:
            self.written(next(iter(self._writes)), error, now_ms)

    # -- time ---------------------------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """When `wake` has something to do, or None."""
        next_ms = self.timers.next_ms()
        late_ms = self._next_late_ms()
        if next_ms is None or late_ms is None:
            return late_ms if next_ms is None else next_ms
        return min(next_ms, late_ms)

    def wake(self, now_ms: int) -> None:
        """Deal with the timers and the late writes whose time has come."""
        self.timers.fire_due(now_ms)
        while (late_ms := self._next_late_ms()) is not None and late_ms <= now_ms:
            write = self._writes[self._late.popleft()[1]]
            write.when_late(ErrorCode.REQUEST_TIMED_OUT, now_ms)
            token, write.token = write.token, None
            self.reply(token, write.answer(ErrorCode.REQUEST_TIMED_OUT))

    def _next_late_ms(self) -> int | None:
        while self._late and self._late[0][1] not in self._writes:
            self._late.popleft()
        return self._late[0][0] if self._late else None


class PartitionMachine(ABC):
    """A machine as the node sees it that runs it."""

    def __init__(self, agenda: Agenda) -> None:
        self.agenda = agenda

    @abstractmethod
    def read(self, key: bytes, value: bytes | None) -> None:
        """Take in one record of the partition while loading. DecodeError if it is not what it claims to be."""

    @abstractmethod
    def loaded(self, now_ms: int) -> list[Effect]:
        """All records are read: the machine serves from now on."""

    @abstractmethod
    def unload(self, now_ms: int) -> list[Effect]:
        """Another node leads the partition: answer all who wait NOT_COORDINATOR. The machine has ended."""

    @abstractmethod
    def describe(self) -> str:
        """What there is in the machine, in a few words: `3 groups`."""

    def next_deadline_ms(self) -> int | None:
        """When to call `wake`, or None. Many events only put it off."""
        return self.agenda.next_deadline_ms()

    def wake(self, now_ms: int) -> list[Effect]:
        """Deal with the deadlines that have come."""
        self.agenda.wake(now_ms)
        return self.agenda.take_effects()

    def appended(self, write_id: int, error: ErrorCode, now_ms: int) -> list[Effect]:
        """An `Append` is committed (NONE) or has failed."""
        self.agenda.written(write_id, error, now_ms)
        return self.agenda.take_effects()
