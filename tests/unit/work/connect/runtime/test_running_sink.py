"""What a sink's task commits, sends and leaves out while partitions move and its sink asks for the same once more."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from tests.unit.work.connect.runtime.test_running_tasks import CONFIG, ONE, TWO, Host, Kafka, Setting

from penstock.client.values import ConsumedRecord, OffsetAndMetadata, TopicPartition
from penstock.work.connect.api import RetriableError, SinkContext, SinkRecord, SinkTask
from penstock.work.connect.config import parse
from penstock.work.connect.errors import LEFT_OUT
from penstock.work.connect.runtime.kinds import KEYS
from penstock.work.connect.runtime.running_sink import RunningSink


class World(SinkTask):
    """The sink, and the consumer and the producer of its task. `puts` are what its next calls of `put` do."""

    def __init__(self) -> None:
        config = CONFIG | {"errors.tolerance": "all", LEFT_OUT: "left-out"}
        setting = Setting("")
        self.attempt = setting.attempt
        self.running = RunningSink(
            setting.task.replace(config=config, errors=parse(KEYS, config)), self, Host(Kafka()), setting.attempt
        )
        world: Any = self
        self.running._consumer = self.running._producer = world
        self.context: SinkContext = self.running._context
        self.puts: list[Callable[[Sequence[SinkRecord]], None]] = []
        self.assignment = [ONE, TWO]
        self.letters: list[bytes | None] = []
        self.committed: list[dict[TopicPartition, int]] = []

    # The sink

    async def start(self, config: Any, context: Any) -> None: ...

    async def put(self, records: Sequence[SinkRecord]) -> None:
        if self.puts:
            self.puts.pop(0)(records)

    async def flush(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None: ...

    async def close(self, partitions: Sequence[TopicPartition]) -> None: ...

    async def stop(self) -> None: ...

    # What Kafka is asked for

    async def send_and_wait(self, topic: str, value: bytes | None, **more: Any) -> None:
        self.letters.append(value)

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.committed.append({one: to.offset for one, to in offsets.items()})

    # What a test does

    async def tries(self, *records: SinkRecord) -> float | None:
        """One `put` of these."""
        self.running._untaken = list(records)
        return await self.running._tried()


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
