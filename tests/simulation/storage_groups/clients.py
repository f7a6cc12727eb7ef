"""Producers and consumers of a storage group, which write down what they were told."""

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random

from tests.simulation.storage_groups.history import History
from tests.simulation.storage_groups.post import Post
from tests.simulation.storage_groups.server import IDS, PARTITIONS, Server, key_of

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch
from penstock.raft.requests import AddVoter, RemoveVoter
from penstock.replication.storage_groups.entries import PartitionId
from penstock.testing.simulator.loop import Process
from penstock.testing.simulator.trace import Trace

ATTEMPT_S = 1.5
PASSING = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NETWORK_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT,
)  # fmt: skip


class Client:
    """Does one thing after the other."""

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
            await asyncio.sleep(self._random.expovariate(10))

    async def act(self, partition: PartitionId) -> None:
        raise NotImplementedError

    def elsewhere(self, error: KafkaError) -> None:
        """Ask another server next, after an error that passes."""
        if error.code not in PASSING:
            self._history.torn.append(f"{self.name} was told {error!r}")
        self._server = self._random.choice(IDS)


class Producer(Client):
    """Produces; an idempotent one sends a batch again until it is acknowledged, another one lets it go."""

    def __init__(self, *given: object, producer_id: int) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._producer_id = producer_id
        self._sequences: dict[PartitionId, int] = {}
        self._next = 0

    async def act(self, partition: PartitionId) -> None:
        """Produce some values."""
        count = self._random.randrange(1, 4)
        values = [f"{self.name}.{self._next + number}" for number in range(count)]
        self._next += count
        operation = self._history.begin(self.name, partition, self._post.loop.moment, values)
        sequence = self._sequences.get(partition, 0)
        records = [Record(timestamp_ms=self._post.loop.now_ms(), value=value.encode()) for value in values]
        is_idempotent = self._producer_id >= 0
        if is_idempotent:
            batch = encode_batch(records, producer_id=self._producer_id, producer_epoch=0, base_sequence=sequence)
            self._sequences[partition] = sequence + count
        else:
            batch = encode_batch(records)
        while not self.stopping:
            server = self._peer(self._server)
            try:
                if server is None:
                    raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE)
                ask = partial(server.produce, partition, bytes(batch))
                operation.offset = await self._post.ask(self.process, server.process, ask, ATTEMPT_S)
            except KafkaError as error:
                self.elsewhere(error)
                if not is_idempotent:
                    return
                await asyncio.sleep(self._random.uniform(0.01, 0.2))
            else:
                operation.ended = self._post.loop.moment
                self.answered += 1
                self._trace.note(self.name, f"{partition.number}@{operation.offset}: {values}")
                return


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
