"""What all machines have in common that live on a partition: a way to be loaded, and an agenda of what is under way.

A machine is loaded (`read` for each record of the partition, then `loaded`), serves requests (methods of its own, each
of which takes `now_ms` and returns effects), and ends with `unload`.

It decides ahead of the commit. What a request changes for good are records: they are applied to its image at once, so
that the next request sees them, and go out as an `Append`; requests are answered when they are committed. A write that
fails takes all back that was decided since: later writes fail with it. Members, timers and requests that wait are in no
record; the continuation of a write says what becomes of them.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from enum import Enum, auto
from itertools import count
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from penstock.coordinator.effects import Append, Cut, Effect, Errand, Job, KeyValue, Note, Part, Reply, Token
from penstock.coordinator.timers import Timer, Timers
from penstock.protocol.errors import DecodeError, ErrorCode

Continuation = Callable[[ErrorCode, int], None]
"""Called when a write is committed (NONE) or has failed. The second argument is `now_ms`."""


LeftOut = Callable[[bytes, DecodeError], None]
"""Told of the key of a record that is left out, and why."""

Return = Callable[[Any, ErrorCode, int], None]
"""Called with what an errand has brought, or None and why not. The last argument is `now_ms`."""

Answer = Callable[[ErrorCode], object]
"""To a client, when a write has ended (NONE: is committed)."""


def nothing(error: ErrorCode, now_ms: int) -> None:
    """The continuation of a write whose end changes nothing."""


def nothing_to_say(error: ErrorCode) -> None:
    """The answer of a write for which no client waits."""


class LogRecord(Protocol):
    def encode(self) -> KeyValue: ...


RecordT = TypeVar("RecordT", bound=LogRecord)


class LogImage(ABC, Generic[RecordT]):
    """Decided records count, committed or not. `apply` is its only mutation, also to take something back."""

    @abstractmethod
    def apply(self, record: RecordT) -> Any:
        """Returns what was there before."""

    @abstractmethod
    def undoing(self, record: RecordT, before: Any) -> RecordT: ...

    def committed(self, records: list[RecordT]) -> None:
        """These were applied, and count for good."""


class Draft(Generic[RecordT]):
    """A batch that is being decided. Each record counts at once, so that what follows in the batch sees it."""

    __slots__ = ("_encoded", "before", "image", "records")

    def __init__(self, image: LogImage[RecordT]) -> None:
        self.image = image
        self.records: list[RecordT] = []
        self.before: list[Any] = []
        """What was there before each record was applied."""
        self._encoded: list[KeyValue] = []

    def put(self, record: RecordT) -> None:
        self.before.append(self.image.apply(record))
        self.records.append(record)

    def encoded(self) -> list[KeyValue]:
        """All records so far. ValueError if one cannot be written."""
        self._encoded += [record.encode() for record in self.records[len(self._encoded) :]]
        return self._encoded

    def backwards(self) -> Iterator[tuple[RecordT, Any]]:
        """Each record, the last one first, with what was there before it."""
        return zip(reversed(self.records), reversed(self.before), strict=True)

    def take_back(self) -> None:
        for record, before in self.backwards():
            self.image.apply(self.image.undoing(record, before))


class _Write(Generic[RecordT]):
    __slots__ = ("draft", "is_part", "then", "waiting", "when_late")

    def __init__(
        self, draft: Draft[RecordT], then: Continuation, when_late: Continuation, *, is_part: bool = False
    ) -> None:
        """`is_part`: of a transaction."""
        self.draft = draft
        self.is_part = is_part
        self.then = then
        self.when_late = when_late
        self.waiting: list[tuple[Token, Answer]] = []
        """Requests that were not answered."""


class Agenda(Generic[RecordT]):
    """Timers, writes that are not committed, and the effects since the last call.

    A write that is neither committed nor failed after `write_timeout_ms` is late: clients that wait for it are told so,
    and its end, which may still come, counts all the same.
    """

    def __init__(self, write_timeout_ms: int, image: LogImage[RecordT]) -> None:
        self.timers = Timers()
        self.image = image
        self._write_timeout_ms = write_timeout_ms
        self._effects: list[Effect] = []
        self._writes: dict[int, _Write[RecordT]] = {}
        """By their ids, in the order in which they were decided."""
        self._unwritable: list[tuple[int, int]] = []
        """Writes that no record holds, by their ids, and when they were decided: they fail at the end of the event."""
        self._late: deque[tuple[int, int]] = deque()
        """When writes will be late, and their ids, in order; those that have ended are dropped when they come up."""
        self._write_ids = count()
        self._errands: dict[int, Return] = {}
        self._errand_ids = count()
        self.written_at = -1
        """The offset of the first record of the write that was committed last: a place to `cut` at."""

    def reply(self, token: Token | None, response: object) -> None:
        """Does nothing if no request waits."""
        if token is not None:
            self._effects.append(Reply(token, response))

    def note(self, line: str) -> None:
        self._effects.append(Note(line))

    def cut(self, offset: int) -> None:
        self._effects.append(Cut(offset))

    def take_effects(self) -> list[Effect]:
        """Effects since the last call, in order."""
        while self._unwritable:
            self._fail_unwritable(*self._unwritable.pop(0))
        effects, self._effects = self._effects, []
        return effects

    # -- writes -------------------------------------------------------------------------------------------------------

    def append(
        self,
        records: list[RecordT],
        now_ms: int,
        *,
        then: Continuation = nothing,
        when_late: Continuation = nothing,
        token: Token | None = None,
        answer: Answer = nothing_to_say,
        part: Part | None = None,
    ) -> None:
        """`then` runs once, when the write has ended; before, perhaps `when_late`. `part` says of which transaction.

        `token` is answered with `answer(error)`: when the write has ended, or is late.
        """
        draft = self.draft()
        for record in records:
            draft.put(record)
        self.append_draft(draft, now_ms, then=then, when_late=when_late, token=token, answer=answer, part=part)

    def draft(self) -> Draft[RecordT]:
        """Append it, or take it back, before anything else happens."""
        return Draft(self.image)

    def append_draft(
        self,
        draft: Draft[RecordT],
        now_ms: int,
        *,
        then: Continuation = nothing,
        when_late: Continuation = nothing,
        token: Token | None = None,
        answer: Answer = nothing_to_say,
        part: Part | None = None,
    ) -> None:
        """As `append`. What no record can hold, such as a name that is too long, fails with INVALID_REQUEST."""
        write_id = next(self._write_ids)
        self._writes[write_id] = write = _Write(draft, then, when_late, is_part=part is not None)
        if token is not None:
            write.waiting.append((token, answer))
        self._late.append((now_ms + self._write_timeout_ms, write_id))
        try:
            self._effects.append(Append(write_id, draft.encoded(), part))
        except ValueError:
            self._unwritable.append((write_id, now_ms))

    def _fail_unwritable(self, write_id: int, now_ms: int) -> None:
        """And what was decided after it."""
        if write_id in self._writes:
            self._effects = [one for one in self._effects if not (isinstance(one, Append) and one.write_id > write_id)]
            self.written(write_id, ErrorCode.INVALID_REQUEST, now_ms, -1)

    def answer_when_committed(self, token: Token, answer: Answer, now_ms: int) -> None:
        """Answer a request that writes nothing as soon as all is committed that it may rest on, or that is late."""
        if not self._writes:
            self.reply(token, answer(ErrorCode.NONE))
            return
        write_id = next(reversed(self._writes))
        self._writes[write_id].waiting.append((token, answer))
        self._late.append((now_ms + self._write_timeout_ms, write_id))

    def refuse(self, token: Token, answer: Answer, error: ErrorCode, now_ms: int) -> None:
        """With `answer(error)`, as soon as all is committed on which the refusal may rest; with that of the write's
        error if it is not.
        """
        self.answer_when_committed(token, lambda failed: answer(error if failed is ErrorCode.NONE else failed), now_ms)

    def written(self, write_id: int, error: ErrorCode, now_ms: int, offset: int) -> None:
        """The oldest write is committed (NONE) at `offset`, or one has failed, and all later ones with it."""
        if error is ErrorCode.NONE:
            self.written_at = offset
            assert write_id == next(iter(self._writes)), "writes are committed in their order"
            ended = [self._writes.pop(write_id)]
            self.image.committed(ended[0].draft.records)
        else:
            ended = [self._writes.pop(one) for one in list(self._writes) if one >= write_id]
            for write in reversed(ended):
                write.draft.take_back()
        for write in ended:
            write.then(error, now_ms)
            self._answer(write, error)

    def _answer(self, write: _Write[RecordT], error: ErrorCode) -> None:
        waiting, write.waiting = write.waiting, []
        for token, answer in waiting:
            self.reply(token, answer(error))

    def came_true(
        self, records: Iterable[RecordT], *, place: Callable[[RecordT], Hashable], value: Callable[[RecordT], Any]
    ) -> None:
        """What was written long ago counts from now on, before all writes that are not committed: for the first of
        these in the same place, its value is what was there before.
        """
        left = {place(record): record for record in records}
        for write in self._writes.values() if left else ():
            for number, later in enumerate(write.draft.records):
                record = left.pop(place(later), None)
                if record is not None:
                    write.draft.before[number] = value(record)
        for record in left.values():
            self.image.apply(record)

    @property
    def is_writing(self) -> bool:
        """Whether anything was decided that is not committed."""
        return bool(self._writes)

    def uncommitted(self, *, only_parts: bool = False) -> Iterator[tuple[RecordT, Any]]:
        """The last record first, with what was there before each; of all writes, or of those in transactions."""
        for write in reversed(self._writes.values()):
            if write.is_part or not only_parts:
                yield from write.draft.backwards()

    def fail_all(self, error: ErrorCode, now_ms: int) -> None:
        """Writes and errands that are under way will not be reported on: they count as failed."""
        while self._writes:
            self.written(next(iter(self._writes)), error, now_ms, -1)
        for errand_id in list(self._errands):
            self.came_back(errand_id, None, error, now_ms)

    def let_go(self) -> None:
        """The machine has ended, and is to be kept by nothing of its own."""
        self.timers.end()

    # -- errands ------------------------------------------------------------------------------------------------------

    def send(self, job: Job, then: Return) -> None:
        """Have something done elsewhere. `then` runs once, or with each part of the answer."""
        errand_id = next(self._errand_ids)
        self._errands[errand_id] = then
        self._effects.append(Errand(errand_id, job))

    def came_back(self, errand_id: int, answer: Any, error: ErrorCode, now_ms: int) -> None:
        self._errands.pop(errand_id)(answer, error, now_ms)

    def came_in_part(self, errand_id: int, answer: Any, now_ms: int) -> None:
        self._errands[errand_id](answer, ErrorCode.NONE, now_ms)

    def pause(self, then: Callable[[ErrorCode, int], None], until_ms: int) -> None:
        """For a request that waits: `then` runs once, with NONE at that time, or with the error of `fail_all`."""
        errand_id = next(self._errand_ids)
        self._errands[errand_id] = lambda _, error, now_ms: then(error, now_ms)
        self.timers.set(Timer(self.came_back, errand_id, None, ErrorCode.NONE), until_ms)

    # -- time ---------------------------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """When `wake` is due."""
        next_ms = self.timers.next_ms()
        late_ms = self._next_late_ms()
        if next_ms is None or late_ms is None:
            return late_ms if next_ms is None else next_ms
        return min(next_ms, late_ms)

    def wake(self, now_ms: int) -> None:
        self.timers.fire_due(now_ms)
        while (late_ms := self._next_late_ms()) is not None and late_ms <= now_ms:
            write = self._writes[self._late.popleft()[1]]
            when_late, write.when_late = write.when_late, nothing
            when_late(ErrorCode.REQUEST_TIMED_OUT, now_ms)
            self._answer(write, ErrorCode.REQUEST_TIMED_OUT)

    def _next_late_ms(self) -> int | None:
        while self._late and self._late[0][1] not in self._writes:
            self._late.popleft()
        return self._late[0][0] if self._late else None


class Reading(Enum):
    LAST_VALUES = auto()
    """The last record of each key, in the order of the log: what compaction would leave."""
    EVERY_RECORD = auto()
    """Each record with its offset, also those without a key, which is empty then."""


class PartitionMachine(ABC, Generic[RecordT]):
    reading: ClassVar[Reading] = Reading.LAST_VALUES
    """The records that the machine is given when it is loaded."""

    def __init__(self, agenda: Agenda[RecordT]) -> None:
        self.agenda = agenda

    @abstractmethod
    def decode(self, key: bytes, value: bytes | None) -> RecordT | None:
        """None for a record that is to be left alone. DecodeError if it is not what it claims."""

    def read(self, key: bytes, value: bytes | None, offset: int = -1) -> None:
        """Called while loading; -1 where the last values are read. DecodeError if the record is not what it claims."""
        record = self.decode(key, value)
        if record is not None:
            self.agenda.image.apply(record)

    def read_last(self, records: Iterable[tuple[bytes, bytes | None]], left_out: LeftOut) -> None:
        """As `read`, for some of the last values, in order; what is not what it claims is left out."""
        for key, value in records:
            self.read_one(left_out, key, value)

    def read_one(self, left_out: LeftOut, key: bytes, value: bytes | None, offset: int = -1) -> None:
        """As `read`, if it is what it claims."""
        try:
            self.read(key, value, offset)
        except DecodeError as error:
            left_out(key, error)

    def read_pending(self, producer_id: int, key: bytes, value: bytes, *, is_overtaken: bool) -> None:
        """Called while loading, after `read`, for what is in a transaction that has not ended. `is_overtaken`: the key
        has a value that was written later. DecodeError as `read`.
        """

    def restoring(self, now_ms: int) -> Iterable[None]:
        """Steps of what follows from the records; others have their turn between them. `loaded` does the rest."""
        return ()

    @abstractmethod
    def loaded(self, now_ms: int) -> list[Effect]:
        """All records are read: the machine serves from now on."""

    @abstractmethod
    def unload(self, now_ms: int) -> list[Effect]:
        """Another node leads the partition: answer all waiting requests NOT_COORDINATOR. The machine has ended."""

    def seal(self, now_ms: int) -> list[Effect]:
        """Another node is to go on: write what no record says yet. No other write is under way."""
        return []

    @abstractmethod
    def describe(self) -> str:
        """A few words: `3 groups`."""

    def next_deadline_ms(self) -> int | None:
        """Many events only put it off."""
        return self.agenda.next_deadline_ms()

    def wake(self, now_ms: int) -> list[Effect]:
        self.agenda.wake(now_ms)
        return self.agenda.take_effects()

    def appended(self, write_id: int, error: ErrorCode, now_ms: int, offset: int = -1) -> list[Effect]:
        """An `Append` is committed (NONE), with its first record at `offset`, or has failed."""
        self.agenda.written(write_id, error, now_ms, offset)
        return self.agenda.take_effects()

    def came_back(self, errand_id: int, answer: Any, error: ErrorCode, now_ms: int) -> list[Effect]:
        """An `Errand` has an answer (NONE) or has failed."""
        self.agenda.came_back(errand_id, answer, error, now_ms)
        return self.agenda.take_effects()

    def came_in_part(self, errand_id: int, answer: Any, now_ms: int) -> list[Effect]:
        """An `Errand` has part of its answer; `came_back` follows with the rest."""
        self.agenda.came_in_part(errand_id, answer, now_ms)
        return self.agenda.take_effects()
