"""A machine that is as small as one can be: it counts up what it is told to, under names."""

from typing import ClassVar

from penstock.coordinator.effects import Effect, Job, KeyValue, Token
from penstock.coordinator.machine import Agenda, LogImage, PartitionMachine, Reading
from penstock.protocol.errors import ErrorCode
from penstock.protocol.value import Value

WRITE_TIMEOUT_MS = 1_000


class Count(Value):
    """What a name has come to; None where it is forgotten."""

    name: str
    value: int | None

    def encode(self) -> KeyValue:
        return self.name.encode(), None if self.value is None else str(self.value).encode()


class Counts(LogImage[Count]):
    """Each name's count."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}

    def apply(self, record: Count) -> int | None:
        before = self.of.pop(record.name, None)
        if record.value is not None:
            self.of[record.name] = record.value
        return before

    def undoing(self, record: Count, before: int | None) -> Count:
        return record.replace(value=before)


class Tally(PartitionMachine[Count]):
    """Answers `add` with the count that it has led to, or with the error."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.taken_in: list[KeyValue] = []
        super().__init__(Agenda(WRITE_TIMEOUT_MS, self.counts))

    def decode(self, key: bytes, value: bytes | None) -> Count | None:
        self.taken_in.append((key, value))
        return Count(key.decode(), None if value is None else int(value)) if key else None

    def add(self, token: Token, name: str, amount: int, now_ms: int) -> list[Effect]:
        count = self.counts.of.get(name, 0) + amount
        records = [Count(name, count)]
        self.agenda.append(
            records, now_ms, token=token, answer=lambda error: count if error is ErrorCode.NONE else error
        )
        return self.agenda.take_effects()

    def ask(self, token: Token, name: str, now_ms: int) -> list[Effect]:
        count = self.counts.of.get(name, 0)
        self.agenda.answer_when_committed(token, lambda error: count if error is ErrorCode.NONE else error, now_ms)
        return self.agenda.take_effects()

    def fetch(self, token: Token, job: Job, now_ms: int) -> list[Effect]:
        """Answers with what the job brings, or with the error."""
        self.agenda.send(job, lambda answer, error, now_ms: self.agenda.reply(token, answer or error))
        return self.agenda.take_effects()

    def rewrite(self, token: Token, now_ms: int) -> list[Effect]:
        """Write all counts, and have the log begin there."""

        def cut(error: ErrorCode, now_ms: int) -> None:
            if error is ErrorCode.NONE:
                self.agenda.cut(self.agenda.written_at)

        records = [Count(name, value) for name, value in self.counts.of.items()]
        self.agenda.append(records, now_ms, then=cut, token=token, answer=lambda error: error)
        return self.agenda.take_effects()

    def loaded(self, now_ms: int) -> list[Effect]:
        return []

    def unload(self, now_ms: int) -> list[Effect]:
        self.agenda.fail_all(ErrorCode.NOT_COORDINATOR, now_ms)
        return self.agenda.take_effects()

    def describe(self) -> str:
        return f"{len(self.counts.of)} counts"


class ReadWhole(Tally):
    """One that wants to see every record."""

    reading: ClassVar[Reading] = Reading.EVERY_RECORD
