"""A small machine of one's own, on nodes with real sockets and disks."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from penstock.log.names import CLEAN_SHUTDOWN
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record
from penstock.raft.settings import RaftSettings
from penstock.replicated.addresses import ServerAddress
from penstock.replicated.errors import NodeError, NotLeaderError, OutcomeUnknownError
from penstock.replicated.machine import StateMachine
from penstock.replicated.node import ReplicatedNode, start_node
from penstock.replicated.options import NodeOptions
from penstock.testing.ports import LOOPBACK, ReservedPort

NewOptions = Callable[[int], list[NodeOptions]]


class Total(StateMachine[int]):
    """A sum; the result of an entry is the sum with it."""

    def __init__(self) -> None:
        self.total = 0

    def apply(self, entry: Record) -> int:
        assert entry.value is not None
        self.total += int(entry.value)
        return self.total

    def snapshot(self) -> list[Record]:
        return [Record(value=b"%d" % self.total)]

    def restore(self, piece: Record) -> None:
        assert piece.value is not None
        self.total = int(piece.value)


@pytest.fixture
def new_options(tmp_path: Path) -> Iterator[NewOptions]:
    """Options of the nodes of a new cluster of this size."""
    ports: list[ReservedPort] = []

    def options(count: int) -> list[NodeOptions]:
        ports.extend(ReservedPort() for _ in range(count))
        for port in ports:
            port.make_way()
        servers = tuple(ServerAddress(LOOPBACK, port.port, number) for number, port in enumerate(ports, 1))
        return [NodeOptions(servers=servers, me=me, directory=str(tmp_path / str(me.id))) for me in servers]

    yield options
    for port in ports:
        port.release()


@asynccontextmanager
async def running(*options: NodeOptions) -> AsyncIterator[list[ReplicatedNode[Total]]]:
    async with AsyncExitStack() as stack:
        nodes = []
        for each in options:
            nodes.append(await start_node(each, Total))
            stack.push_async_callback(nodes[-1].stop)
        yield nodes


async def add(node: ReplicatedNode[Total], number: int) -> int:
    """By this node, as soon as it leads; a new cluster has yet to elect."""
    while True:
        try:
            return await node.propose(b"%d" % number)
        except NotLeaderError:
            await asyncio.sleep(0)


async def leader_of(nodes: list[ReplicatedNode[Total]]) -> ReplicatedNode[Total]:
    while True:
        for node in nodes:
            try:
                await node.read()
                return node
            except NotLeaderError:
                await asyncio.sleep(0)


async def test_each_proposal_gets_the_result_of_its_own_entry(new_options: NewOptions) -> None:
    async with running(*new_options(1)) as (node,):
        assert await add(node, 1) == 1
        results = await asyncio.gather(*(node.propose(b"1") for _ in range(50)))
        assert results == list(range(2, 52))
        assert (await node.read()).total == 51


async def test_the_machine_outlives_a_restart_by_its_snapshot(new_options: NewOptions) -> None:
    (options,) = new_options(1)
    quick, sums = (
        options.replace(snapshot_period_seconds=0.001, snapshot_min_log_size=1_000, max_segment_file_size=1_000),
        0,
    )
    async with running(quick) as (node,):
        while not node.quorum.log_start_offset:
            sums = await add(node, 1)
    mark = Path(options.directory) / CLEAN_SHUTDOWN
    assert mark.exists()
    async with running(options) as (node,):
        assert not mark.exists(), "a crash from here on would be taken for a clean stop"
        assert node.quorum.log_start_offset > 0
        assert await add(node, 1) == sums + 1


async def test_a_follower_names_the_leader(new_options: NewOptions) -> None:
    async with running(*new_options(3)) as nodes:
        leader = await leader_of(nodes)
        assert await leader.propose(b"5") == 5
        follower = next(node for node in nodes if node is not leader and node.leader)
        for refused in (follower.propose(b"5"), follower.read()):
            with pytest.raises(NotLeaderError, match=f"this node does not lead: ask {leader.options.me}") as caught:
                await refused
            assert caught.value.leader == leader.options.me


async def test_a_leader_that_loses_the_lead_does_not_know_what_became_of_an_entry(new_options: NewOptions) -> None:
    async with running(*new_options(3)) as nodes:
        leader = await leader_of(nodes)
        for node in nodes:
            if node is not leader:
                await node.stop()
        proposed = asyncio.ensure_future(leader.propose(b"5"))
        await asyncio.sleep(0)
        assert not proposed.done()
        leader.quorum.resign()
        with pytest.raises(OutcomeUnknownError):
            await proposed


async def test_reads_without_leases_go_through_the_log_and_past_the_machine(new_options: NewOptions) -> None:
    (options,) = new_options(1)
    async with running(options.replace(quorum=RaftSettings(leases=False))) as (node,):
        await add(node, 1)
        before = node.quorum.log_end_offset
        assert (await node.read()).total == 1
        assert node.quorum.log_end_offset == before + 1


async def test_an_entry_that_is_too_large(new_options: NewOptions) -> None:
    (options,) = new_options(1)
    async with running(options.replace(max_entry_bytes=3)) as (node,):
        assert await add(node, 100) == 100
        with pytest.raises(KafkaError, match="an entry of 4 bytes; max_entry_bytes allows 3") as caught:
            await node.propose(b"1000")
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


async def test_a_machine_that_raises_ends_its_node(new_options: NewOptions) -> None:
    async with running(*new_options(1)) as (node,):
        await add(node, 1)
        serving = asyncio.ensure_future(node.run_until(asyncio.Event()))
        with pytest.raises(OutcomeUnknownError):
            await node.propose(b"no number")
        with pytest.raises(NodeError, match="no number"):
            await serving


async def test_a_node_that_has_stopped_takes_nothing(new_options: NewOptions) -> None:
    async with running(*new_options(1)) as (node,):
        await add(node, 1)
        await node.stop()
        with pytest.raises(NotLeaderError):
            await node.propose(b"1")
