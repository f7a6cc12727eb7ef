"""What a sink's task commits, sends and leaves out while partitions move and its sink asks for the same once more."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from tests.stand_in import stand_in
from tests.unit.work.connect.runtime.test_running_tasks import CONFIG, ONE, TWO, Host, Kafka, Setting

from penstock.client.errors import ConsumerMisuseError
from penstock.client.values import ConsumedRecord, OffsetAndMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.work.connect.api import RetriableError, SinkContext, SinkRecord, SinkTask
from penstock.work.connect.config import parse
from penstock.work.connect.conversion import steps_of
from penstock.work.connect.errors import LEFT_OUT, Failure
from penstock.work.connect.runtime import running_sink, running_tasks
from penstock.work.connect.runtime.kinds import KEYS
from penstock.work.connect.runtime.running_sink import RunningSink, _safe


class World(SinkTask):
    """The sink, and the consumer and the producer of its task.

    `puts` are what the next calls of `put` do, and so on.
    """

    def __init__(self) -> None:
        config = CONFIG | {"errors.tolerance": "all", LEFT_OUT: "left-out", "value.converter": "StringConverter"}
        setting = Setting("")
        self.attempt = setting.attempt
        task = setting.task.replace(config=config, errors=parse(KEYS, config), steps=steps_of(config, {}))
        self.running = RunningSink(task, self, Host(Kafka()), setting.attempt)
        world: Any = self
        self.running._consumer = self.running._producer = world
        self.context: SinkContext = self.running._context
        self.puts: list[Callable[[Sequence[SinkRecord]], None]] = []
        self.flushes: list[Callable[[], None]] = []
        self.sends: list[Callable[[], None]] = []
        self.polls: list[Callable[[], Awaitable[list[ConsumedRecord] | None]]] = []
        self.rebalance: asyncio.Task[None] | None = None
        self.assignment = [ONE, TWO]
        self.letters: list[bytes | None] = []
        self.sought: list[tuple[TopicPartition, int]] = []
        self.refusals: list[ErrorCode] = []
        self.committed: list[dict[TopicPartition, int]] = []

    # The sink

    async def start(self, config: Any, context: Any) -> None: ...

    async def put(self, records: Sequence[SinkRecord]) -> None:
        try:
            if self.puts:
                self.puts.pop(0)(records)
        finally:
            await asyncio.sleep(0)

    async def flush(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        if self.flushes:
            self.flushes.pop(0)()

    async def close(self, partitions: Sequence[TopicPartition]) -> None: ...

    async def stop(self) -> None: ...

    # What Kafka is asked for

    async def poll(self, timeout_ms: int) -> list[ConsumedRecord]:
        return (await self.polls.pop(0)() if self.polls else None) or []

    def seek(self, partition: TopicPartition, offset: int) -> None:
        if partition not in self.assignment:
            raise ConsumerMisuseError(f"{partition} is not assigned")
        self.sought.append((partition, offset))

    def pause(self, partitions: Sequence[TopicPartition]) -> None: ...

    def resume(self, partitions: Sequence[TopicPartition]) -> None: ...

    async def send_and_wait(self, topic: str, value: bytes | None, **more: Any) -> None:
        await asyncio.sleep(0)
        if self.sends:
            self.sends.pop(0)()
        await asyncio.sleep(0)
        self.letters.append(value)

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        if self.refusals:
            raise KafkaError(self.refusals.pop(0))
        self.committed.append({one: to.offset for one, to in offsets.items()})

    # What a test does

    async def tries(self, *records: SinkRecord) -> float | None:
        """One `put` of these."""
        self.running._untaken = list(records)
        return await self.running._tried()

    def revokes(self) -> None:
        """A rebalance begins, which goes on beside the task's own loop."""

        async def revoke() -> None:
            await self.running.on_revoked([ONE])
            self.assignment = [TWO]

        self.rebalance = asyncio.create_task(revoke())


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.attempt.calls.close()


def lay(partition: TopicPartition, offset: int) -> SinkRecord:
    consumed = ConsumedRecord(partition.topic, partition.partition, offset, 0, None, b"%d" % offset)
    return SinkRecord(partition.topic, partition.partition, offset=offset, consumed=consumed)


async def test_a_put_that_is_repeated_takes_back_what_it_reported_of_its_own_records(world: World) -> None:
    """A sink that writes in the background hears late that a record cannot be written."""
    first, second = lay(ONE, 5), lay(ONE, 6)

    def later(records: Sequence[SinkRecord]) -> None:
        for one in (second, first):
            world.context.report(one, ValueError("bad"))
        raise RetriableError("full")

    world.puts = [lambda _: None, later]
    assert await world.tries(first) is None
    assert await world.tries(second) is not None
    world.running._done[ONE] = 6
    await world.running._flush([ONE])
    assert (world.letters, world.committed) == ([b"5"], [{ONE: 6}])


@pytest.mark.parametrize("begins", ["in a poll", "in the last turn but one"])
async def test_what_a_failed_rebalance_did_not_make_safe_is_not_committed(world: World, begins: str) -> None:
    """Its own flush reports a record, which cannot be sent to the dead letter queue."""
    sent = lay(TWO, 1), ValueError("bad as well")
    unsent = lay(ONE, 6), ValueError("bad")

    async def polled() -> None:
        world.attempt.stopping.set()
        if begins == "in a poll":
            world.revokes()
            await asyncio.sleep(0)
        else:
            world.running.setting = world.running.setting.replace(
                environment=world.running.setting.environment.replace(flush_interval_ms=10**9)
            )
            world.context.reported.append(sent)
            world.sends.insert(0, world.revokes)

    def fail() -> None:
        raise TimeoutError("nobody takes it")

    world.polls, world.sends = [polled], [fail]
    world.flushes = [lambda: world.context.reported.append(unsent)]
    world.running._done.update({ONE: 7, TWO: 3})
    running: Any = world
    with pytest.raises(TimeoutError, match="nobody takes it"):
        await world.running._write(running)
    assert world.rebalance is not None
    assert isinstance(world.rebalance.exception(), TimeoutError)
    assert (world.committed, world.context.reported) == ([], [unsent])


async def test_a_sink_is_offered_nothing_after_a_failed_rebalance(world: World) -> None:
    def fail() -> None:
        raise ValueError("broken")

    def later(_: Sequence[SinkRecord]) -> None:
        world.context.timeout(1)
        raise RetriableError("full")

    async def polled() -> None:
        world.revokes()
        await asyncio.sleep(0)

    world.puts, world.flushes, world.polls = [later, lambda _: None], [fail], [polled]
    world.running._done[ONE] = 7
    world.running._untaken = [lay(TWO, 1)]
    running: Any = world
    with pytest.raises(ValueError, match="broken"):
        await world.running._put(running)
    assert len(world.puts) == 1
    assert world.rebalance is not None
    assert world.rebalance.exception() is not None
    opened: list[Sequence[TopicPartition]] = []
    world.open = opened.append  # type: ignore[method-assign, assignment]
    await world.running.on_assigned([ONE])
    assert opened == []


@pytest.mark.parametrize("full", [False, True])
async def test_a_partition_that_goes_is_committed_where_the_sink_goes_back_to(world: World, full: bool) -> None:
    """It asks for that in a `put`, and a rebalance waits until that is over."""

    async def polled() -> list[ConsumedRecord]:
        consumed = lay(ONE, 6).consumed
        assert consumed is not None
        return [consumed]

    async def stopped() -> None:
        world.attempt.stopping.set()

    def rewinds(_: Sequence[SinkRecord]) -> None:
        world.context.rewind(ONE, 3)
        world.revokes()
        if full:
            raise RetriableError("full")

    world.puts, world.polls = [rewinds], [polled, stopped]
    running: Any = world
    await world.running._write(running)
    assert (world.sought, world.committed) == ([(ONE, 3)], [{ONE: 3}])


async def test_a_sink_that_goes_back_in_a_flush_of_what_goes_is_not_heeded(world: World) -> None:
    world.flushes = [lambda: world.context.rewind(ONE, 3)]
    world.running._done[ONE] = 7
    await world.running.on_revoked([ONE])
    assert (world.context.wanted, world.committed) == ({}, [{ONE: 7}])


async def test_trouble_with_records_that_have_gone_is_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses_ms = [0, 10**6]

    def later(_: Sequence[SinkRecord]) -> None:
        world.context.timeout(pauses_ms.pop(0))
        raise RetriableError("full")

    async def polled() -> None:
        await world.running.on_revoked([ONE])

    told: list[str] = []
    monkeypatch.setattr(running_tasks, "LONG_S", 0.0)
    world.running._attempt = world.attempt.replace(lasts=told.append)
    world.puts, world.polls = [later, later], [polled]
    world.running._untaken = [lay(ONE, 1)]
    running: Any = world
    await world.running._put(running)
    assert (world.puts, told) == ([], ["it has been trying again for 0 s: full", ""])


async def test_a_rebalance_opens_nothing_when_the_task_is_over(world: World) -> None:
    """It may have waited for its turn while the loop flushed for the last time: nobody would close what it opens."""
    opened: list[Sequence[TopicPartition]] = []
    world.open = opened.append  # type: ignore[method-assign, assignment]
    for is_over in (False, True):
        world.running._is_over = is_over
        await world.running.on_assigned([ONE])
    assert opened == [[ONE]]


async def test_positions_are_committed_when_it_is_time_or_the_sink_asks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, passes_s = [100.0], [0.5, 0.25, 0.25, 0.5, 0.5, 0.25, 0.5, 0.25]
    loop = SimpleNamespace(time=lambda: now_s[0])
    monkeypatch.setattr(running_sink, "asyncio", stand_in(asyncio, get_running_loop=lambda: loop))
    environment = world.running.setting.environment.replace(flush_interval_ms=1_000)
    world.running.setting = world.running.setting.replace(environment=environment)
    seen: list[int] = []

    def polled(offset: int) -> Callable[[], Awaitable[list[ConsumedRecord]]]:
        async def poll() -> list[ConsumedRecord]:
            seen.append(len(world.committed))
            now_s[0] += passes_s[offset]
            consumed = lay(ONE, offset).consumed
            assert consumed is not None
            return [consumed]

        return poll

    async def stopped() -> None:
        world.attempt.stopping.set()

    world.polls = [*map(polled, range(8)), stopped]
    world.puts = [*[lambda _: None] * 5, lambda _: world.context.request_commit()]
    running: Any = world
    await world.running._write(running)
    assert world.committed == [{ONE: 3}, {ONE: 5}, {ONE: 6}, {ONE: 8}]
    assert seen == [0, 0, 0, 1, 1, 2, 3, 3], "by the time at 101 and 102, once as it was asked for, then at the end"


@pytest.mark.parametrize("gone", [[], [ONE], [ONE, TWO]])
async def test_what_was_not_taken_is_given_to_whoever_has_it_next(world: World, gone: list[TopicPartition]) -> None:
    world.running._done = {ONE: 9, TWO: 4}
    world.running._untaken = [lay(ONE, 7), lay(ONE, 5), lay(TWO, 6), lay(ONE, 6)]
    world.running._give_back(gone)
    assert world.running._done == {ONE: 5 if gone else 9, TWO: 4}
    assert [record.original for record in world.running._untaken] == [
        one for one in (ONE, ONE, TWO, ONE) if one not in gone
    ]
    world.running._done = {}
    world.running._untaken = [lay(TWO, 6), lay(TWO, 8)]
    world.running._give_back([TWO])
    assert (world.running._done, world.running._untaken) == ({TWO: 6}, [])


def test_a_sink_allows_no_more_than_it_was_given() -> None:
    offered = {ONE: OffsetAndMetadata(5), TWO: OffsetAndMetadata(7)}
    assert _safe(None, offered) is offered
    for made in ({}, {ONE: OffsetAndMetadata(5)}, {ONE: OffsetAndMetadata(0), TWO: OffsetAndMetadata(7)}):
        assert _safe(made, offered) is made
    wrong: tuple[Any, ...] = (
        [],
        5,
        {ONE: 5},
        {ONE: OffsetAndMetadata(6)},
        {TopicPartition("u", 0): OffsetAndMetadata(0)},
    )
    for one in (*wrong, {ONE: OffsetAndMetadata(5), TWO: OffsetAndMetadata(8)}):
        with pytest.raises(ValueError, match="positions of partitions that it was given are needed, or None"):
            _safe(one, offered)


async def test_of_partitions_that_go_nothing_is_known(world: World) -> None:
    for forget in (world.running.on_revoked, world.running.on_lost):
        world.running._done = {ONE: 5, TWO: 6}
        world.running._committed = {ONE: 1, TWO: 2}
        world.context.wanted.update({ONE: 3, TWO: 4})
        await forget([ONE])
        assert (world.running._done, world.running._committed, world.context.wanted) == ({TWO: 6}, {TWO: 2}, {TWO: 4})
    assert world.committed == [{ONE: 5}], "what was lost is not committed"


async def test_what_is_committed_already_is_not_committed_again(world: World) -> None:
    for offset, commits in ((5, 1), (5, 1), (6, 2), (5, 3)):
        world.running._done[ONE] = offset
        await world.running._flush([ONE, TWO])
        assert len(world.committed) == commits
        assert ONE not in world.running._done


@pytest.mark.parametrize(("pause_ms", "pause_s"), [(None, running_sink.RETRY_S), (0, 0.0), (1_500, 1.5)])
async def test_a_sink_says_how_long_to_wait(world: World, pause_ms: int | None, pause_s: float) -> None:
    def later(_: Sequence[SinkRecord]) -> None:
        if pause_ms is not None:
            world.context.timeout(pause_ms)
        raise RetriableError("full")

    world.puts = [later]
    assert await world.tries(lay(ONE, 5)) == pause_s
    assert (world.context.pause_ms, world.running.records) == (None, 0)
    assert await world.tries(lay(ONE, 5), lay(ONE, 6)) is None
    assert (world.running.records, world.running._untaken) == (2, [])


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ],
)
async def test_a_commit_that_the_group_refuses_ends_no_task_and_comes_again(world: World, code: ErrorCode) -> None:
    world.refusals = [code]
    world.running._done[ONE] = 7
    for _ in range(3):
        await world.running._flush([ONE])
    assert (world.committed, world.running._done) == ([{ONE: 7}], {})


@pytest.mark.parametrize("code", [ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_AUTHORIZATION_FAILED])
async def test_a_commit_that_is_never_to_be_ends_the_task(world: World, code: ErrorCode) -> None:
    world.refusals = [code]
    world.running._done[ONE] = 7
    with pytest.raises(KafkaError):
        await world.running._flush([ONE])


@pytest.mark.parametrize("wanted", ["true", "false"])
async def test_what_is_left_out_says_why_where_that_is_wanted(world: World, wanted: str) -> None:
    sent: list[tuple[str, bytes | None, Any]] = []

    async def send(topic: str, value: bytes | None, *, key: bytes | None, headers: Any) -> None:
        sent.append((topic, key, dict(headers)))

    world.send_and_wait = send  # type: ignore[method-assign, assignment]
    errors = {**world.running.setting.errors, "errors.deadletterqueue.context.headers.enable": wanted == "true"}
    world.running.setting = world.running.setting.replace(errors=errors)
    failure = Failure("TASK_PUT", "Sink", ValueError("no"))
    await world.running._report(failure, ConsumedRecord(*ONE, 3, 0, b"k", b"v", [("h", b"1")]))
    await world.running._report(failure, None)
    ((topic, key, headers),) = sent
    assert (topic, key, headers.pop("h")) == ("left-out", b"k", b"1")
    found = {name.removeprefix("__connect.errors."): value for name, value in headers.items()}
    assert found.pop("exception.stacktrace", b"ValueError: no\n") == b"ValueError: no\n"
    said = {"topic": ONE.topic, "partition": ONE.partition, "offset": 3, "stage": "TASK_PUT", "class.name": "Sink"}
    said |= {"connector.name": world.running.setting.connector, "task.id": world.running.setting.number}
    said |= {"exception.class.name": "builtins.ValueError", "exception.message": "no"}
    assert found == ({name: str(word).encode() for name, word in said.items()} if wanted == "true" else {})


async def test_nobody_waits_any_longer_for_a_sink_that_has_stopped(world: World) -> None:
    await world.running._stop(AsyncExitStack())
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
