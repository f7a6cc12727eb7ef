"""Producers and consumers of a storage group, which write down what they were told."""

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random

from tests.simulation.storage_groups.history import History, Operation
from tests.simulation.storage_groups.post import Post
from tests.simulation.storage_groups.server import IDS, PARTITIONS, Server, key_of

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch
from penstock.raft.requests import AddVoter, RemoveVoter
from penstock.replication.storage_groups.entries import PartitionId
from penstock.testing.simulator.loop import Process
from penstock.testing.simulator.trace import Trace

ATTEMPT_S = 1.5
EXPECTED = re.compile(r"sent sequence (\d+) .*expected was (\d+)")
MOST_UNDER_WAY = 5
"""Batches of an idempotent producer for one partition."""
PASSING = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NETWORK_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT,
)  # fmt: skip


class Client:
    """Does one thing after the other, so many in a second."""

    pace = 10

    def __init__(
        self,
        name: str,
        post: Post,
        random: Random,
        history: History,
        trace: Trace,
        peer: Callable[[int], Server | None],
    ) -> None:
        self.name = name
        self.process = Process(name)
        self.answered = 0
        self.stopping = False
        self._post = post
        self._random = random
        self._history = history
        self._trace = trace
        self._peer = peer
        self._server = random.choice(IDS)

    async def run(self) -> None:
        """Until it is told to stop."""
        while not self.stopping:
            await self.act(self._random.choice(PARTITIONS))
            await asyncio.sleep(self._random.expovariate(self.pace))

    async def act(self, partition: PartitionId) -> None:
        raise NotImplementedError

    def elsewhere(self, error: KafkaError) -> None:
        """Ask another server next, after an error that passes."""
        if error.code not in PASSING:
            self._history.torn.append(f"{self.name} was told {error!r}")
        self._server = self._random.choice(IDS)


class Producer(Client):
    """Produces a batch, and lets it go if that fails: nobody knows then what became of it."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._next = 0

    async def act(self, partition: PartitionId) -> None:
        """Produce some values."""
        operation, records = self._new(partition)
        with suppress(KafkaError):
            await self._send(partition, bytes(encode_batch(records)), operation)

    def _new(self, partition: PartitionId) -> tuple[Operation, list[Record]]:
        count = self._random.randrange(1, 4)
        values = [f"{self.name}.{self._next + number}" for number in range(count)]
        self._next += count
        operation = self._history.begin(self.name, partition, self._post.loop.moment, values)
        return operation, [Record(timestamp_ms=self._post.loop.now_ms(), value=value.encode()) for value in values]

    async def _send(self, partition: PartitionId, batch: bytes, operation: Operation) -> None:
        server = self._peer(self._server)
        try:
            if server is None:
                raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE)
            ask = partial(server.produce, partition, batch)
            operation.offset = await self._post.ask(self.process, server.process, ask, ATTEMPT_S, in_order=True)
        except KafkaError as error:
            if error.code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                self.elsewhere(error)
            raise
        operation.ended = self._post.loop.moment
        self.answered += 1
        self._trace.note(self.name, f"{partition.number}@{operation.offset}: {operation.values}")


class Line:
    """What an idempotent producer has sent to one partition, and has no answer for; in their order."""

    def __init__(self) -> None:
        self.epoch = self.sequence = 0
        self.unanswered: dict[bytes, Operation] = {}
        self.under_way = 0
        self.is_broken = False
        """One of them has failed: all are sent again when none is under way any more."""
        self.failures: set[ErrorCode] = set()
        self.servers: set[int] = set()
        """What was told and who was asked since none was under way."""
        self.news = asyncio.Event()


class IdempotentProducer(Producer):
    """Has up to five batches of each partition under way, and sends them again, in their order, until each is
    acknowledged.
    """

    pace = 4

    def __init__(self, *given: object, producer_id: int) -> None:
        super().__init__(*given)
        self._producer_id = producer_id
        self._lines = {partition: Line() for partition in PARTITIONS}
        self._history.in_order.add(self.name)

    async def act(self, partition: PartitionId) -> None:
        """Produce some batches."""
        line = self._lines[partition]
        for _ in range(self._random.choice((1, 1, 3, MOST_UNDER_WAY))):
            while len(line.unanswered) >= MOST_UNDER_WAY and not self.stopping:
                line.news.clear()
                await line.news.wait()
            if self.stopping:  # what failed is not sent again any more, and nothing may come before it
                return
            operation, records = self._new(partition)
            batch = encode_batch(
                records, producer_id=self._producer_id, producer_epoch=line.epoch, base_sequence=line.sequence
            )
            line.sequence += len(records)
            line.unanswered[bytes(batch)] = operation
            if not line.is_broken:
                self._begin(partition, bytes(batch))

    def _begin(self, partition: PartitionId, batch: bytes) -> None:
        self._lines[partition].under_way += 1
        self.process.spawn(self._post.loop, self._sent(partition, batch))

    async def _sent(self, partition: PartitionId, batch: bytes) -> None:
        line = self._lines[partition]
        line.servers.add(self._server)
        try:
            await self._send(partition, batch, line.unanswered[batch])
        except KafkaError as error:
            line.is_broken = True
            line.failures.add(error.code)
            if error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and batch == next(iter(line.unanswered), None):
                self._forgotten(line, error)
        else:
            line.unanswered.pop(batch, None)
        line.under_way -= 1
        if not line.under_way:
            self._look_at_order(line)
        if line.is_broken and not line.under_way:
            await asyncio.sleep(self._random.uniform(0.01, 0.2))
            line.is_broken = False
            for one in [] if self.stopping else line.unanswered:
                self._begin(partition, one)
        line.news.set()

    def _look_at_order(self, line: Line) -> None:
        """Who asks one server over one connection, and whom nothing fails, sends nothing out of order."""
        if line.failures == {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER} and len(line.servers) == 1:
            self._history.torn.append(f"{self.name} was told that batches are out of order which it sent in order")
        line.failures.clear()
        line.servers.clear()

    def _forgotten(self, line: Line, error: KafkaError) -> None:
        """All before it was acknowledged, so nothing may be missing. Of what is there already, a log that was opened
        anew may know the last batch only: then the producer lets go of what is open, and begins its next epoch.
        """
        line.epoch += 1
        line.failures.add(ErrorCode.UNKNOWN_PRODUCER_ID)
        found = EXPECTED.search(str(error))
        if found is None or int(found[1]) > int(found[2]):
            self._history.torn.append(f"{self.name} was told {error!r}")
        line.sequence = 0
        line.unanswered.clear()


class Consumer(Client):
    """Fetches from near the end that it knows."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._ends: dict[PartitionId, int] = {}

    async def act(self, partition: PartitionId) -> None:
        """Fetch."""
        operation = self._history.begin(self.name, partition, self._post.loop.moment, [])
        server, offset = self._peer(self._server), max(0, self._ends.get(partition, 0) - 3)
        try:
            if server is None:
                raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE)
            ask = partial(server.fetch, partition, offset)
            end_offset, records = await self._post.ask(self.process, server.process, ask, ATTEMPT_S)
        except KafkaError as error:
            self.elsewhere(error)
            return
        operation.offset, operation.ended = end_offset, self._post.loop.moment
        self._ends[partition] = end_offset
        for place, value in records:
            self._history.saw(self.name, partition, place, value)
        self.answered += 1
        self._trace.note(self.name, f"{partition.number} ends at {end_offset}")


class Mover(Client):
    """Changes who votes, of four replicas: one is added if there are three, else one is removed."""

    async def act(self, partition: PartitionId) -> None:
        """Ask who leads; nobody knows what becomes of a change that fails."""
        await asyncio.sleep(self._random.expovariate(1))
        server = self._peer(self._server)
        try:
            if server is None:
                raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE)
            voters = server.driver.quorum.ids
            if len(voters) > 3:
                change: AddVoter | RemoveVoter = RemoveVoter(key_of(self._random.choice(voters)))
            else:
                change = AddVoter(key_of(next(node_id for node_id in IDS if node_id not in voters)), timeout_ms=1000)
            ask = partial(server.change_voters, change)
            error = await self._post.ask(self.process, server.process, ask, 2 * ATTEMPT_S)
        except KafkaError as raised:
            self.elsewhere(raised)
            return
        if error is ErrorCode.NONE:
            self.answered += 1
            self._trace.note(self.name, f"{change} of {voters}")
        else:
            self._server = self._random.choice(IDS)
