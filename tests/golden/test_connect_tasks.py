"""All that tasks of sources and sinks ask of their clients and of their worker, call by call."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import pytest

from penstock.client.values import ConsumedRecord, OffsetAndMetadata, TopicPartition
from penstock.work.connect.api import Record, RetriableError, SinkTask, SourceRecord, SourceTask
from penstock.work.connect.calls import Calls
from penstock.work.connect.config import parse
from penstock.work.connect.conversion import steps_of
from penstock.work.connect.providers import Providers
from penstock.work.connect.runtime import running_tasks, transactional_source
from penstock.work.connect.runtime.kinds import KEYS
from penstock.work.connect.runtime.running_sink import RunningSink
from penstock.work.connect.runtime.running_tasks import Environment, RunningSource, TaskSetting
from penstock.work.connect.runtime.supervisor import Attempt
from penstock.work.connect.runtime.transactional_source import TransactionalSource

EXPECTED: Final = Path(__file__).parent / "connect_tasks.txt"
NEVER: Final = {"flush": "1000000000"}
ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)
CONFIG: Final = {
    "name": "c",
    "connector.class": "FileStreamSource",
    "transforms": "f",
    "transforms.f.type": "org.apache.kafka.connect.transforms.Filter",
    "transforms.f.predicate": "p",
    "predicates": "p",
    "predicates.p.type": "TopicNameMatches",
    "predicates.p.pattern": "dropped",
    "producer.override.linger.ms": "7",
    "consumer.override.fetch.min.bytes": "7",
    "key.converter": "StringConverter",
    "value.converter": "StringConverter",
    "errors.tolerance": "all",
}
WORKER: Final = {
    "producer.acks": "1",
    "producer.batch.size": "9",
    "consumer.listeners": "x",
    "consumer.client.rack": "r",
}


class Told:
    """Stands for a producer, a consumer, a host, and where they come from: notes what it is asked."""

    generation = 0

    def __init__(self, script: list[Any], *, is_fenced: bool = False) -> None:
        self.lines: list[str] = []
        self.script = script
        self.assignment: tuple[TopicPartition, ...] = (ONE, TWO)
        self.attempt: Attempt
        self.running: Any = None
        self.is_fenced = is_fenced

    def say(self, *words: object) -> None:
        self.lines.append(" ".join(map(str, words)))

    def next(self) -> Any:
        """What a poll brings. With the end of the script the task is told to stop."""
        if not self.script:
            self.attempt.stopping.set()
            return []
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    # Clients

    def producer(self, properties: Mapping[str, str], **settings: Any) -> "Told":
        self.say("producer", dict(properties), settings)
        return self

    def consumer(self, properties: Mapping[str, str], **settings: Any) -> "Told":
        self.say("consumer", dict(properties), settings)
        return self

    async def __aenter__(self) -> "Told":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.say("client closed")

    async def send(self, topic: str, value: Any, **more: Any) -> asyncio.Future[None]:
        self.say("send", topic, value, *(f"{name}={it}" for name, it in more.items() if it is not None and it != []))
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        sent.set_result(None)
        return sent

    async def send_and_wait(self, topic: str, value: Any, **more: Any) -> None:
        await self.send(topic, value, **more)

    async def flush(self) -> None:
        self.say("flush")

    async def init_transactions(self) -> None:
        self.say("init_transactions")

    async def begin_transaction(self) -> None:
        self.say("begin")

    async def commit_transaction(self) -> None:
        self.say("commit")

    async def abort_transaction(self) -> None:
        self.say("abort")

    async def subscribe(self, *topics: Any, **pattern: Any) -> None:
        self.say("subscribe", *topics, *(f"{name}={it}" for name, it in pattern.items() if name != "listener"))

    async def poll(self, timeout_ms: int) -> Any:
        found = self.next()
        if callable(found):
            found = await found(self)
        self.say("consumer polled", f"for {timeout_ms} ms:" if self.running._is_holding else ":", len(found), "records")
        return found

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.say("commit", {str(one): to.offset for one, to in offsets.items()})

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.say("seek", partition, offset)

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        self.say("pause", *partitions)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        self.say("resume", *partitions)

    # The worker

    def transactional_id(self, connector: str, number: int) -> str:
        return f"{connector}/{number}"

    async def may_begin(self, connector: str, stopping: object) -> bool:
        return not self.is_fenced

    async def verify(self, connector: str, generation: int, until: Callable[[], float]) -> None:
        self.say("verify", connector, generation, until())

    def owned_until_s(self) -> float:
        return 5.0

    def uses(self, topic: str) -> None:
        self.say("uses", topic)

    def offsets_known(self, config: Mapping[str, str]) -> Any:
        self.say("offsets known")
        return nullcontext()

    def offset(self, partition: Any) -> Any:
        return None

    def offsets(self) -> list[Any]:
        return []

    def rows(self, offsets: Sequence[Any]) -> list[tuple[bytes, bytes | None]]:
        return [(str(of).encode(), str(offset).encode()) for of, offset in offsets]

    async def store(self, offsets: Sequence[Any]) -> None:
        self.say("store", *(offset for _, offset in offsets))

    def copy(self, offsets: Sequence[Any]) -> None:
        self.say("copy", *(offset for _, offset in offsets))

    async def settle(self) -> None:
        self.say("settle")


class Source(SourceTask):
    def __init__(self, told: Told) -> None:
        self.told = told

    async def start(self, config: Any, context: Any) -> None:
        self.context = context
        self.told.say("start, failed before:", context.failed_runs, *context.failures)

    async def poll(self) -> Any:
        found = self.told.next()
        return found(self.context.transactions) if callable(found) else found

    async def commit(self) -> None:
        self.told.say("task committed")

    async def stop(self) -> None:
        self.told.say("stop")


class Sink(SinkTask):
    """Does what a test says for each `put` and `flush`, and allows what it says to be committed."""

    def __init__(self, told: Told, puts: Sequence[Any], safe: Sequence[Any]) -> None:
        self.told, self.puts, self.safe = told, list(puts), list(safe)
        self.had: list[Any] = []

    async def start(self, config: Any, context: Any) -> None:
        self.context = context

    async def put(self, records: Any) -> None:
        self.told.say("put", *(f"{one.value} of {one.original}@{one.offset}" for one in records))
        self.had += records
        if self.puts:
            self.puts.pop(0)(self.context, records)

    async def flush(self, offsets: Any) -> Any:
        self.told.say("task flushes", {str(one): to.offset for one, to in offsets.items()})
        safe = self.safe.pop(0) if self.safe else None
        return safe(self.context, self.had) if callable(safe) else safe

    async def open(self, partitions: Any) -> None:
        self.told.say("open", *partitions, "of", *self.context.assignment)

    async def close(self, partitions: Any) -> None:
        self.told.say("close", *partitions)

    async def stop(self) -> None:
        self.told.say("stop")


def setting(told: Any, config: Mapping[str, str]) -> TaskSetting:
    environment = Environment(
        clients=told,
        config=WORKER,
        providers=Providers({}),
        flush_interval_ms=int(config.get("flush", "0")),
        flush_timeout_s=60.0,
        shutdown_timeout_s=1.0,
        tracks_topics=False,
        makes_topics=False,
        generations=told,
        offsets_topic_of=lambda _: "offsets",
    )
    own = CONFIG | {key: value for key, value in config.items() if key != "flush"}
    return TaskSetting(number=3, config=own, environment=environment, steps=steps_of(own, {}), errors=parse(KEYS, own))


def read(*offsets: int, topic: str = "t") -> list[SourceRecord]:
    return [SourceRecord(topic, value=f"line {n}", source_partition={"f": 1}, source_offset={"at": n}) for n in offsets]


def lay(*places: tuple[int, int], topic: str = "t") -> list[ConsumedRecord]:
    return [ConsumedRecord(topic, partition, offset, 9, None, b"v%d" % offset) for partition, offset in places]


def ends(*offsets: int, **what: Any) -> Callable[[Any], list[SourceRecord]]:
    """A poll that says where transactions end: `commit=2` behind the record at 2, `batch=True` behind the last one."""

    def poll(transactions: Any) -> list[SourceRecord]:
        records = read(*offsets)
        for word, at in what.items():
            if word == "batch":
                transactions.commit() if at else transactions.abort()
            else:
                getattr(transactions, word)(next(one for one in records if one.source_offset["at"] == at))
        return records

    return poll


def steps() -> list[Any]:
    return [read(1, 2), RetriableError("not now"), None, read(3, topic="dropped"), read(4)]


TAKEN: Final = (ends(1, 2, 3, commit=2), ends(4, 5, abort=4), ends(6, batch=True), ends(7, batch=False), ends(8))
SOURCES: Final[Mapping[str, tuple[type[RunningSource], Mapping[str, str], Callable[[], list[Any]]]]] = {
    "a source": (RunningSource, {}, steps),
    "a source that is not flushed before its end": (RunningSource, NEVER, steps),
    "a source that fails": (RunningSource, NEVER, lambda: [read(1), ValueError("broken")]),
    "transactions of a poll": (TransactionalSource, {}, steps),
    "transactions that last": (TransactionalSource, NEVER | {"transaction.boundary": "interval"}, steps),
    "transactions of no time": (TransactionalSource, {"transaction.boundary": "interval"}, steps),
    "transactions of an interval of its own": (
        TransactionalSource,
        {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "1000000000"},
        steps,
    ),
    "transactions that the source ends": (
        TransactionalSource,
        {"transaction.boundary": "connector"},
        lambda: list(TAKEN),
    ),
    "transactions that fail": (TransactionalSource, NEVER, lambda: [read(1), [*read(2), 7]]),
    "records for the topic of offsets": (TransactionalSource, {}, lambda: [read(1), read(2, topic="offsets")]),
    "a task that was fenced": (TransactionalSource, {}, steps),
}


async def revoke(told: Told) -> list[ConsumedRecord]:
    await told.running.on_revoked([ONE])
    told.assignment = (TWO,)
    return []


async def lose(told: Told) -> list[ConsumedRecord]:
    await told.running.on_lost([ONE, TWO])
    told.assignment = ()
    return []


async def assign(told: Told) -> list[ConsumedRecord]:
    await told.running.on_assigned([TWO])
    return []


def later(context: Any, records: Any) -> None:
    """Asks to be asked again, and takes back what it has said."""
    context.send(Record("out", value="too early"))
    context.report(records[0], ValueError("too early"))
    context.timeout(10**9)
    raise RetriableError("full")


def at_once(context: Any, records: Any) -> None:
    context.timeout(0)
    raise RetriableError("once more")


def sends(context: Any, records: Any) -> None:
    context.send(Record("out", value="made of it", key="k"))
    context.report(records[0], ValueError("bad"))
    context.request_commit()


def all_had(context: Any, records: Any) -> None:
    """Of a flush: all that came with any `put` so far is reported, and something is written."""
    context.send(Record("out", value="the sum"))
    for one in records:
        context.report(one, ValueError("bad"))


def rewinds(context: Any, records: Any) -> None:
    context.rewind(ONE, 3)


def fails(context: Any, records: Any) -> None:
    raise ValueError("broken")


def nothing(context: Any, records: Any) -> None: ...


LOST: Final = {"errors.deadletterqueue.topic.name": "lost", "errors.deadletterqueue.context.headers.enable": "false"}
FEW: Final = ({ONE: OffsetAndMetadata(6)}, {ONE: OffsetAndMetadata(6)})
SINKS: Final[Mapping[str, tuple[Mapping[str, str], Sequence[Any], Sequence[Any], Sequence[Any]]]] = {
    "a sink": ({"topics": "t, u"}, [lay((0, 5), (1, 8)), [], lay((0, 6))], (), ()),
    "a sink that is not flushed before its end": (
        NEVER | {"topics.regex": "t.*"},
        [lay((0, 5), (1, 8)), lay((0, 6))],
        (),
        (),
    ),
    "a sink that keeps some of it": ({"topics": "t"}, [lay((0, 5), (0, 6)), [], []], (), FEW),
    "records that are dropped": ({"topics": "t"}, [lay((0, 5), topic="dropped")], (), ()),
    "a sink that is full, and loses a partition": (
        {"topics": "t"},
        [lay((0, 5), (1, 8)), [], revoke, assign, revoke],
        (later, later),
        (),
    ),
    "a sink that is full while another one gets its partitions": (
        {"topics": "t"},
        [lay((0, 5)), lose, []],
        (later,),
        (),
    ),
    "a sink that is full for a moment": ({"topics": "t"}, [lay((0, 5)), []], (at_once, at_once), ()),
    "a sink that writes and reports": (NEVER | LOST | {"topics": "t"}, [lay((0, 5), (0, 6)), []], (sends,), ()),
    "a sink that writes and reports when it is flushed": (
        NEVER | LOST | {"topics": "t"},
        [lay((0, 5), (0, 6)), lay((0, 7)), revoke],
        (),
        (all_had,),
    ),
    "a sink that goes back": ({"topics": "t"}, [lay((0, 5), (0, 6)), lay((0, 3))], (rewinds,), ()),
    "a sink that fails": ({"topics": "t"}, [lay((0, 5)), lay((0, 6))], (nothing, fails), ()),
    "a sink whose partitions go between two polls": (NEVER | {"topics": "t"}, [lay((0, 5), (1, 8)), revoke], (), ()),
    "a sink that allows too much": ({"topics": "t"}, [lay((0, 5))], (), ({ONE: OffsetAndMetadata(7)},)),
    "a sink that allows another partition": ({"topics": "t"}, [lay((0, 5))], (), ({TWO: OffsetAndMetadata(6)},)),
}


async def played(make: Callable[[Told, Attempt], Any], told: Told) -> list[str]:
    told.attempt = attempt = Attempt(
        calls=Calls("task"),
        stopping=asyncio.Event(),
        begun=lambda: told.say("begun"),
        written={},
        failures=("it was broken",),
        failed_runs=2,
        generation=4,
    )
    told.running = running = make(told, attempt)
    try:
        await running.run()
    except Exception as error:
        told.say("raises", repr(error))
    attempt.calls.close()
    return [*told.lines, f"{running.records} records"]


async def source(name: str) -> list[str]:
    kind, config, script = SOURCES[name]
    told = Told(script(), is_fenced="fenced" in name)
    return await played(lambda told, attempt: kind(setting(told, config), Source(told), told, attempt), told)


async def sink(name: str) -> list[str]:
    config, script, puts, safe = SINKS[name]

    def make(told: Told, attempt: Attempt) -> RunningSink:
        running = RunningSink(setting(told, config), Sink(told, puts, safe), told, attempt)
        running._make_left_out = nobody  # type: ignore[method-assign]
        return running

    return await played(make, Told(list(script)))


async def nobody() -> None: ...


def parts(text: str) -> Iterator[tuple[str, str]]:
    for part in text.strip().split("\n\n"):
        name, _, lines = part.partition("\n")
        yield name, lines


@pytest.mark.parametrize("name", [*SOURCES, *SINKS])
async def test_it_is_as_written(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    async def paused(stopping: object, seconds: float) -> None:
        lines.append("is left alone")

    lines: list[str] = []
    for module in (running_tasks, transactional_source):
        monkeypatch.setattr(module, "pause", paused)
    text = "\n".join(f"  {line}" for line in await (source(name) if name in SOURCES else sink(name)))
    text += f"\n  left alone {len(lines)} times"
    expected = dict(parts(EXPECTED.read_text(encoding="utf-8"))) if EXPECTED.exists() else {}
    if request.config.getoption("--rewrite", default=False):
        expected = {one: text if one == name else expected.get(one, "") for one in (*SOURCES, *SINKS)}
        EXPECTED.write_text("\n\n".join(f"{one}\n{it}" for one, it in expected.items()) + "\n", encoding="utf-8")
    assert text == expected[name]
