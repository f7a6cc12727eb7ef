"""Speaks of one share partition: what its members do, what is written down, and what is in flight then."""

import re
from collections.abc import Iterable, Iterator, Sequence

from penstock.protocol.errors import KafkaError
from penstock.sharing.acquiring import Acquired, Demand, Fetched
from penstock.sharing.breaker import State
from penstock.sharing.dead_letters import Cause, DeadLetter
from penstock.sharing.in_flight import HELD, SETTLED, RecordState, Run
from penstock.sharing.ordered import Keyed, OrderedPartition
from penstock.sharing.share_partition import SharePartition
from penstock.sharing.values import (
    ACCEPT,
    GAP,
    NEVER_MS,
    NO_RATE,
    NOT_WRITTEN,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    ShareSettings,
    StateBatch,
    Write,
    Written,
)

TYPES = {"gap": GAP, "accepts": ACCEPT, "releases": RELEASE, "rejects": REJECT, "renews": RENEW}
NUMBERS: dict[str, int | None] = {"-": None, "a": 1, "b": 2, "c": 3, "d": 4}
OPTION = re.compile(r"(\w+)=(\S+)")


def span(text: str) -> tuple[int, int]:
    """Of 10-19 or 10."""
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def shown(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def delays(options: dict[str, str]) -> list[int]:
    return [int(delay) for delay in options["delays"].split(",")] if "delays" in options else []


def acquisitions(acquired: Sequence[Acquired]) -> str:
    return " ".join(f"{shown(it.first, it.last)}*{it.delivery_count}" for it in acquired) or "nothing"


class ShareLecture:
    """`at` sets the clock; members are words that no command is."""

    def __init__(self) -> None:
        self.partition = SharePartition(ShareSettings())
        self.now_ms = 0
        self.letters: list[DeadLetter] = []

    def handle(self, line: str) -> Iterable[str]:
        options = dict(OPTION.findall(line))
        command, *words = OPTION.sub("", line).split()
        method = getattr(self, f"_{command}", None)
        try:
            if method is not None:
                return list(method(words, options))
            return list(self._member(command, words, options))
        except KafkaError as error:
            return [f"{error.code.name}: {error}"]

    # the partition

    @staticmethod
    def _settings(options: dict[str, str]) -> ShareSettings:
        return ShareSettings(
            int(options.get("lock", 30_000)),
            int(options.get("limit", 5)),
            int(options.get("locks", 2_000)),
            options.get("renew") != "no",
            int(options.get("backoff", 0)),
            int(options.get("longest", 60_000)),
            delivery_count_durable=options.get("durable") == "yes",
            has_dead_letters=options.get("dead") == "yes",
            dead_letter_max_rate=int(options.get("rate", NO_RATE)),
        )

    def _configure(self, words: list[str], options: dict[str, str]) -> Iterator[str]:
        """The group's settings are others from now on."""
        self.partition.configure(self._settings(options))
        yield from self._show([], {})

    def _partition(self, words: list[str], options: dict[str, str]) -> Iterator[str]:
        self.now_ms = 0
        settings = self._settings(options)
        self.letters = []
        self.partition = OrderedPartition(settings) if options.get("order") == "key" else SharePartition(settings)
        self.partition.load()
        start, *batches = words
        written = [
            StateBatch(*span(records), RecordState[state.upper()], int(count), *map(int, held))
            for records, state, count, *held in (batch.split(":") for batch in batches)
        ]
        begins = NOT_WRITTEN if start == "new" else int(start)
        try:
            self.partition.loaded(Written(begins, 0, written), int(options.get("begins", 0)))
        except ValueError as error:
            yield f"failed: {error}"
            return
        yield from self._show([], {})

    def _show(self, words: list[str], options: dict[str, str]) -> Iterator[str]:
        it = self.partition
        records = " ".join(self._run(run) for run in it.flight.runs()) or "nothing"
        where = f"from {it.start_offset}, next {it.next_fetch_offset} of {it.next_offset}"
        full = "" if it.can_acquire else ", full" if it.status.value == "active" else f", {it.status.value}"
        yield f"{where}, {it.delivery_complete_count} finished{full}: {records}"

    def _all(self, words: list[str], options: dict[str, str]) -> Iterator[str]:
        """Besides, when time has something to do, and what deliveries do."""
        partition, breaker = self.partition, self.partition.breaker
        acquired, held = partition.in_hands()
        until = "never" if partition.next_expiry_ms == NEVER_MS else str(partition.next_expiry_ms)
        keyed = ""
        if isinstance(partition, OrderedPartition):
            keyed = f", keys to {partition.keyed_to}{' and on' if partition.wants_keys else ''}"
        writing = ", writing" if partition.is_writing else ""
        pause = f"{breaker.state.value} {breaker.pause_ms(self.now_ms)}"
        yield f"{acquired} acquired, {held} held, due {until}, {pause}{writing}{keyed}"
        yield from self._show(words, options)

    @staticmethod
    def _run(run: Run) -> str:
        owner = f"({run.member})" if run.member else ""
        held = f"<{run.held_until_ms}" if run.held_until_ms else "<" if run.writing == HELD else ""
        return f"{shown(run.first, run.last)}={run.state.name.lower()}{owner}*{run.delivery_count}{held}" + (
            "?" if run.writing > SETTLED else ""
        )

    def _keys(self, words: list[str], options: dict[str, str]) -> Iterator[str]:
        """What the log has, a key for each record: `-` is none, `.` that there is no record."""
        assert isinstance(self.partition, OrderedPartition)
        read = []
        for records, keys in (word.split(":") for word in words):
            first, last = span(records)
            named = dict(zip(range(first, last + 1), keys.split(","), strict=True))
            read.append(Keyed(first, last, {it: NUMBERS[key] for it, key in named.items() if key != "."}))
        self.partition.admit(read)
        yield from self._show([], {})

    def _at(self, words: list[str], options: dict[str, str]) -> Iterator[str]:
        self.now_ms = int(words[0])
        return iter(())

    def _locks(self, words: list[str], options: dict[str, str]) -> Iterator[str]:
        """Have the locks run out that are over."""
        yield from self._told(self.partition.expire(self.now_ms))

    def _log(self, words: list[str], options: dict[str, str]) -> Iterator[str]:
        """The log begins later."""
        self.partition.log_begins_at(int(words[0]))
        yield from self._show([], {})

    def _fence(self, words: list[str], options: dict[str, str]) -> Iterator[str]:
        self.partition.fence()
        yield from self._show([], {})

    def _written(self, words: list[str], options: dict[str, str]) -> Iterator[str]:
        self.partition.written(int(words[0]), is_written=True, now_ms=self.now_ms)
        yield from self._show([], {})

    def _lost(self, words: list[str], options: dict[str, str]) -> Iterator[str]:
        """A write failed."""
        self.partition.written(int(words[0]), is_written=False, now_ms=self.now_ms)
        yield from self._show([], {})

    def _told(self, write: Write | None) -> Iterator[str]:
        if write is None:
            yield "nothing to write"
            return
        batches = " ".join(
            f"{shown(it.first, it.last)}={it.state.name.lower()}*{it.delivery_count}"
            + (f"<{it.held_until_ms}" if it.held_until_ms else "")
            for it in write.batches
        )
        yield f"write {write.write_id} from {write.start_offset}, {write.delivery_complete_count} finished: {batches}"

    # dead letters

    def _letters(self, words: list[str], options: dict[str, str]) -> Iterator[str]:
        """Those that are due."""
        letters = self.partition.take_dead_letters(self.now_ms)
        self.letters += letters
        if not letters:
            yield "no letter"
        for it in letters:
            cause = "a rejection" if it.cause is Cause.REJECTED else "too many deliveries"
            known = "perhaps again" if it.failures is None else f"first {it.failures.first.text}"
            if it.failures is not None and it.failures.last is not it.failures.first:
                known += f", last {it.failures.last.text}"
            yield f"letter {shown(it.first, it.last)}*{it.delivery_count} of {cause}, {known}"
        breaker = self.partition.breaker
        if breaker.state is not State.CLOSED:
            yield f"deliveries are {breaker.state.value} until {breaker.next_ms}"

    def _buried(self, words: list[str], options: dict[str, str]) -> Iterator[str]:
        letters, self.letters = self.letters, []
        yield from self._told(self.partition.buried(letters))

    # members

    def _member(self, member: str, words: list[str], options: dict[str, str]) -> Iterator[str]:
        what, *records = words
        if what == "takes":
            acquired = self._takes(member, records, options)
            yield f"{member} has {acquisitions(acquired)}"
            if acquired and self.partition.settings.delivery_count_durable:
                yield from self._told(self.partition.counting(acquired))
        elif what == "gets":  # what was counted
            acquired = [Acquired(*span(it), int(options["count"])) for it in records]
            yield f"{member} gets {acquisitions(self.partition.given(member, acquired))}"
        elif what == "leaves":
            yield from self._told(self.partition.release(member, self.now_ms))
        elif what == "says":
            said = [it.partition(":") for it in records]
            given = [
                Acknowledgement(
                    *span(it), [int(kind) for kind in (types or options["types"]).split(",")], delays(options)
                )
                for it, _, types in said
            ]
            yield from self._told(self.partition.acknowledge(member, given, self.now_ms))
        else:
            given = [
                Acknowledgement(*span(it), [TYPES[what]], delays(options), options.get("why", "")) for it in records
            ]
            yield from self._told(self.partition.acknowledge(member, given, self.now_ms))

    def _takes(self, member: str, records: list[str], options: dict[str, str]) -> list[Acquired]:
        """`records` are the batches that the log has there."""
        exactly = "exactly" in records
        batches = [span(it) for it in records if it != "exactly"]
        size = int(options.get("size", 500))
        demand = Demand(member, int(options.get("max", 500)), size, exactly)
        aborted = [span(it) for it in options["aborted"].split(",")] if "aborted" in options else []
        offset = int(options.get("from", self.partition.next_fetch_offset))
        return self.partition.acquire(demand, Fetched(offset, batches, aborted), self.now_ms)
