"""The language of the transcripts of a coordinator of transactions: one partition of `__transaction_state`.

anew version=N [NAME=ID/EPOCH …]             a coordinator, and ids whose producers have come so far
init NAME TIMEOUT [as=ID/EPOCH] [keeps]      a producer begins
add NAME ID/EPOCH t-0 … [client=N]           partitions come into its transaction; N is the client's transaction.version
verify NAME ID/EPOCH t-0 …                   a leader asks whether they are in it
end NAME ID/EPOCH commit|abort [raises]      `raises`: as transaction.version 2 has it
commit [COUNT] | fail ERROR                  the oldest writes, or all; or the oldest one fails, and all behind it
bring [t-0=ERROR … | ERROR]                  the oldest errand comes back: each partition has its marker, or not
advance MS                                   time goes on, timer by timer
version N                                    the cluster's transaction.version
calm                                         half a minute in which all goes well
look NAME                                    all that the coordinator has decided, and the answer about one id
restart | end-it                             another coordinator reads what is committed; or this one ends

What clients ask of the coordinator has a number, by which it is answered. Whatever comes, `Ledger` holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tests.unit.coordinator.ahead import looks_ahead

from penstock.coordinator.effects import Append, Effect, Errand, Markers, NewProducerId, Note, Reply
from penstock.coordinator.shards.transactions import TransactionShard
from penstock.coordinator.transaction.outcome import Outcome
from penstock.coordinator.transaction.records import TransactionRecord, decode_record
from penstock.coordinator.transaction.settings import TransactionSettings
from penstock.coordinator.transaction.transaction import WITHOUT_TIMEOUT_MS, Partition, Producer, State, Transaction
from penstock.protocol.errors import ErrorCode

SETTINGS = TransactionSettings(
    abort_interval_ms=100, expiration_ms=20_000, expiration_interval_ms=1_000, write_timeout_ms=400, at_once=2
)
NEXT = {
    State.EMPTY: {State.EMPTY, State.ONGOING, State.PREPARE_ABORT},
    State.ONGOING: {State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT},
    State.PREPARE_COMMIT: {State.COMPLETE_COMMIT},
    State.PREPARE_ABORT: {State.COMPLETE_ABORT},
    State.COMPLETE_COMMIT: {State.EMPTY, State.ONGOING, State.PREPARE_ABORT},
    State.COMPLETE_ABORT: {State.EMPTY, State.ONGOING, State.PREPARE_ABORT},
}
"""Of Kafka's states, which come after which."""


class Ledger:
    """What holds of all that is committed, told and sent, by the plainest means."""

    def __init__(self) -> None:
        self.last: dict[str, Transaction] = {}
        self.waiting: dict[str, None] = {}
        """Requests that are not answered."""
        self.fenced: dict[str, None] = {}
        """Ids whose transaction a newer coordinator ends."""

    def committed(self, record: TransactionRecord) -> None:
        before = self.last.pop(record.transactional_id, None)
        after = record.value
        if after is None:
            assert before is not None, "what is forgotten was there"
            assert before.state in (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT), (
                "nothing open is forgotten"
            )
            return
        assert before is None or after.state in NEXT[before.state], f"{before} and then {after}"
        if before is not None and before.producer_id == after.producer_id:
            assert before.producer_epoch <= after.producer_epoch, "epochs never go back"
        if before is not None and before.state is State.ONGOING:
            assert list(after.partitions)[: len(before.partitions)] == list(before.partitions), "none is left out"
        self.last[record.transactional_id] = after

    def sent(self, markers: Markers) -> None:
        """Only of a decision that is committed, and for its partitions alone."""
        assert any(
            known.state is (State.PREPARE_COMMIT if markers.commits else State.PREPARE_ABORT)
            and (known.producer_id, known.producer_epoch) == (markers.producer_id, markers.producer_epoch)
            and set(markers.partitions) <= set(known.partitions)
            for known in self.last.values()
        ), f"{markers} without a decision"

    def calm(self, now_ms: int) -> None:
        """All has gone well for long: who asked has an answer, what was decided is done, what took too long is over."""
        assert not self.waiting, f"nobody answers {list(self.waiting)}"
        for name, known in self.last.items():
            is_open = known.state not in (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
            may_be = name in self.fenced or known.timeout_ms == WITHOUT_TIMEOUT_MS
            is_late = known.state is not State.ONGOING or known.start_ms + known.timeout_ms < now_ms - 1_000
            assert not is_open or may_be or not is_late, f"{name} is left open: {known}"

    def asked(self, token: str) -> None:
        self.waiting[token] = None

    def answered(self, token: str) -> None:
        assert token in self.waiting, f"{token} is answered twice"
        del self.waiting[token]


class TransactionLecture:
    def __init__(self) -> None:
        self.now_ms = 0
        self.asked = 0
        self.next_producer_id = 100
        self.version = 2
        self.log: list[tuple[bytes, bytes | None]] = []
        self.ledger = Ledger()
        self.begin()

    def begin(self) -> list[Effect]:
        """A coordinator that reads what is committed."""
        self.shard = TransactionShard(SETTINGS, 4, self.version)
        looks_ahead(self.shard, lambda: self.now_ms)
        self.appends: list[Append] = []
        self.errands: list[Errand] = []
        for key, value in dict(self.log).items():
            self.shard.read(key, value)
        return self.shard.loaded(self.now_ms)

    def handle(self, line: str) -> Iterable[object]:
        """Plays one line."""
        command, *words = line.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        names = [word for word in words if "=" not in word]
        return list(getattr(self, f"do_{command.replace('-', '_')}")(names, options))

    # What happens.

    def do_anew(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        self.__init__()  # type: ignore[misc]
        self.version = int(options.pop("version"))
        for name, producer in options.items():
            record = TransactionRecord(name, Transaction(*pair(producer), 1_000, 0))
            self.log.append(record.encode())
            self.ledger.committed(record)
        yield from self.told(self.begin())

    def do_init(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        asked_by = Producer(*pair(options["as"])) if "as" in options else None
        token = self.token()
        yield from self.told(self.shard.init(token, names[0], int(names[1]), asked_by, "keeps" in names, self.now_ms))

    def do_add(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        name, producer, *partitions = names
        wanted = dict.fromkeys(map(partition, partitions))
        client = int(options.get("client", 2))
        yield from self.told(self.shard.add(self.token(), name, Producer(*pair(producer)), wanted, client, self.now_ms))

    def do_verify(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        name, producer, *partitions = names
        wanted = dict.fromkeys(map(partition, partitions))
        yield from self.told(self.shard.verify(self.token(), name, Producer(*pair(producer)), wanted, self.now_ms))

    def do_end(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        name, producer, how, *rest = names
        commits, raises = how == "commit", "raises" in rest
        yield from self.told(
            self.shard.end(self.token(), name, Producer(*pair(producer)), commits, raises, self.now_ms)
        )

    def do_look(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        yield self.shard.describe() + ": " + ", ".join(map(str, self.shard.counts()))
        yield from (f"{name}: {words_of(known)}" for name, known in self.shard.transactions())
        for name in names:
            yield from self.told(self.shard.describe_transaction(self.token(), name, self.now_ms))

    def do_commit(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        for _ in range(int(names[0]) if names else len(self.appends)):
            append = self.appends.pop(0)
            self.log += append.records
            for key, value in append.records:
                record = decode_record(key, value)
                assert record is not None, "its own records"
                self.ledger.committed(record)
            yield from self.told(self.shard.appended(append.write_id, ErrorCode.NONE, self.now_ms, len(self.log)))

    def do_fail(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        lost, self.appends = self.appends, []
        yield from self.told(self.shard.appended(lost[0].write_id, ErrorCode[names[0]], self.now_ms))

    def do_bring(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        errand = self.errands.pop(0)
        error, answer = ErrorCode[names[0]] if names else ErrorCode.NONE, None
        if error is ErrorCode.NONE:
            answer = self.brought(errand, options)
        yield from self.told(self.shard.came_back(errand.errand_id, answer, error, self.now_ms))

    def brought(self, errand: Errand, options: dict[str, str]) -> Any:
        if isinstance(errand.job, NewProducerId):
            self.next_producer_id += 1
            return self.next_producer_id
        assert isinstance(errand.job, Markers)
        errors = {partition(name): ErrorCode[error] for name, error in options.items()}
        return {one: errors.get(one, ErrorCode.NONE) for one in errand.job.partitions}

    def do_advance(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        until_ms = self.now_ms + int(names[0])
        while (next_ms := self.shard.next_deadline_ms()) is not None and next_ms <= until_ms:
            self.now_ms = max(next_ms, self.now_ms)
            told = list(self.told(self.shard.wake(self.now_ms)))
            yield from [f"at {self.now_ms} ms:", *told] if told else []
        self.now_ms = until_ms

    def do_calm(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        for _ in range(60):
            while self.appends or self.errands:
                yield from self.do_commit([], {})
                yield from self.do_bring([], {}) if self.errands else ()
            yield from self.do_advance(["500"], {})
        while self.appends:
            yield from self.do_commit([], {})
        self.ledger.calm(self.now_ms)

    def do_version(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        self.version = int(names[0])
        self.shard.set_version(self.version)
        yield from ()

    def do_restart(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        yield from self.do_end_it(names, options)
        yield from self.told(self.begin())

    def do_end_it(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        self.appends, self.errands = [], []
        yield from self.told(self.shard.unload(self.now_ms))
        assert not self.ledger.waiting, f"nobody answers {list(self.ledger.waiting)}"
        self.appends, self.errands = [], []

    # What is told of it.

    def token(self) -> str:
        self.asked += 1
        self.ledger.asked(f"#{self.asked}")
        return f"#{self.asked}"

    def told(self, effects: list[Effect]) -> Iterator[str]:
        for effect in effects:
            if isinstance(effect, Reply):
                self.ledger.answered(str(effect.token))
                yield f"-> {effect.token}: {answer_of(effect.response)}"
            elif isinstance(effect, Append):
                self.appends.append(effect)
                yield from (f"   append {record_of(key, value)}" for key, value in effect.records)
            elif isinstance(effect, Errand):
                self.errands.append(effect)
                yield f"   asks for {self.job_of(effect.job)}"
            elif isinstance(effect, Note):
                self.ledger.fenced[effect.line.partition(":")[0]] = None
                yield f"   note {effect.line}"

    def job_of(self, job: object) -> str:
        if isinstance(job, NewProducerId):
            return "a producer id"
        assert isinstance(job, Markers)
        self.ledger.sent(job)
        what, version = "commit" if job.commits else "abort", job.transaction_version
        places = " ".join(f"{topic}-{index}" for topic, index in job.partitions)
        producer = f"{job.producer_id}/{job.producer_epoch}"
        return f"markers, {what} of {producer}, coordinator {job.coordinator_epoch}, version {version}: {places}"


def record_of(key: bytes, value: bytes | None) -> str:
    record = decode_record(key, value)
    assert record is not None, "its own records"
    layout = "" if value is None else f", layout {value[1]}"
    return f"{record.transactional_id}: {words_of(record.value)}{layout}"


def words_of(known: Transaction | None) -> str:
    """All that is not as it was in the beginning."""
    if known is None:
        return "none"
    parts = [f"{known.state.shown} {known.producer_id}/{known.producer_epoch}"]
    parts += ["with " + " ".join(f"{topic}-{index}" for topic, index in known.partitions)] if known.partitions else []
    for name in ("last_epoch", "previous_producer_id", "next_producer_id", "next_producer_epoch", "start_ms"):
        parts += [f"{name} {getattr(known, name)}"] if getattr(known, name) != -1 else []
    return ", ".join([*parts, f"{known.timeout_ms} ms, client {known.client_version}, at {known.updated_ms}"])


def answer_of(response: object) -> str:
    if isinstance(response, Outcome):
        kept = "" if response.kept is None else f", ends that of {response.kept.producer_id}/{response.kept.epoch}"
        is_told = response.producer_id != -1
        return response.error.name + (f" {response.producer_id}/{response.producer_epoch}" if is_told else "") + kept
    if isinstance(response, dict):
        return " ".join(f"{topic}-{index}={error.name}" for (topic, index), error in response.items())
    return response.name if isinstance(response, ErrorCode) else words_of(response)  # type: ignore[arg-type]


def pair(text: str) -> tuple[int, int]:
    producer_id, _, epoch = text.partition("/")
    return int(producer_id), int(epoch)


def partition(text: str) -> Partition:
    topic, _, index = text.rpartition("-")
    return topic, int(index)
