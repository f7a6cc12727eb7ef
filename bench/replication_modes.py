"""What acks=all costs on three nodes: replicas in sync, those with a sync for each batch, and storage groups.

Producers wait for each answer before they send the next batch, which has one record of 1 KB. Leaders are all on one
node, for a storage group has one. The three nodes, and who loads them, share the machine and its disk.
"""

import asyncio
import contextlib
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from bench.measure import Measure, measure, percentile
from bench.segments import batches
from bench.topics import create_topic, leaders_of
from bench.wire import produce_frame
from penstock.protocol.errors import ErrorCode
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

SECONDS: Final = 2.0
BEFORE_S: Final = 0.5
"""So long the load runs before it counts."""
VALUE: Final = os.urandom(1000)
LOADS: Final = ((1, 1), (1, 12), (12, 12), (12, 100))
"""Topics, and producers."""
MODES: Final[dict[str, dict[str, str]]] = {
    "ISR": {"min.insync.replicas": "2"},
    "ISR, flush.messages=1": {"min.insync.replicas": "2", "flush.messages": "1"},
    "consensus": {"replication.mode": "consensus", "storage.group": "0"},
}
CONSENSUS: Final = "consensus"
LINGERS_MS: Final = (0, 2, 10)
LINGERING: Final = (12, 12)
LIMIT_S: Final = 60.0
LOOK_S: Final = 0.05


class Load(NamedTuple):
    """What producers saw; for consensus also how many records a proposal had."""

    per_s: float
    p50_ms: float
    p99_ms: float
    per_proposal: float


def replication_modes(runs: int) -> list[Measure]:
    """How many batches with acks=all do three nodes take, and how long does each wait, by how they are replicated?"""
    found: dict[str, list[Load]] = {}
    for linger_ms in LINGERS_MS:
        with Cluster(nodes=3, process=True, config={"propose.linger.ms": str(linger_ms)}) as cluster:
            if not linger_ms:
                for mode, config in MODES.items():
                    for load in LOADS:
                        found[_name(mode, load, linger_ms)] = _loads(cluster, mode, config, load, runs)
            else:
                name = _name(CONSENSUS, LINGERING, linger_ms)
                found[name] = _loads(cluster, CONSENSUS, MODES[CONSENSUS], LINGERING, runs)
    return [one for name, loads in found.items() for one in _measures(name, loads)]


def _name(mode: str, load: tuple[int, int], linger_ms: int) -> str:
    topics, producers = load
    return f"{mode}, {topics} topics, {producers} producers" + (f", linger {linger_ms} ms" if linger_ms else "")


def _measures(name: str, loads: Sequence[Load]) -> Iterator[Measure]:
    yield measure(f"{name}", "batches/s", [load.per_s for load in loads])
    yield measure(f"{name}, p50", "ms", [load.p50_ms for load in loads])
    yield measure(f"{name}, p99", "ms", [load.p99_ms for load in loads])
    if name.startswith(CONSENSUS):
        yield measure(f"{name}, batches in a proposal", "", [load.per_proposal for load in loads])


def _loads(cluster: Cluster, mode: str, config: dict[str, str], load: tuple[int, int], runs: int) -> list[Load]:
    count, producers = load
    names = [f"{mode.partition(',')[0].lower()}-{len(config)}-{count}-{producers}-{index}" for index in range(count)]
    for name in names:
        create_topic(cluster.bootstrap_servers, name, 1, 3, config, places=() if mode == CONSENSUS else [[1, 2, 3]])
    address = wait_until(lambda: _leader(cluster, names), LIMIT_S, "a leader of all topics")
    frames = [produce_frame(names[index % count], VALUE, acks=-1) for index in range(producers)]
    return [asyncio.run(_load(cluster, address, frames)) for _ in range(runs)]


def _leader(cluster: Cluster, names: list[str]) -> str | None:
    leaders = {leaders_of(cluster.bootstrap_servers, name).get(0, -1) for name in names}
    return None if -1 in leaders or len(leaders) > 1 else cluster.node(leaders.pop()).address


async def _load(cluster: Cluster, address: str, frames: list[bytes]) -> Load:
    await asyncio.gather(*(_until_taken(address, frame) for frame in frames))
    before, waits = _proposed(cluster), list[tuple[float, float]]()
    begun = time.perf_counter()
    ends = begun + BEFORE_S + SECONDS
    await asyncio.gather(*(_produce(address, frame, ends, waits) for frame in frames))
    counted = [took for at, took in waits if begun + BEFORE_S <= at < ends]
    entries, proposals = (after - earlier for after, earlier in zip(_proposed(cluster), before, strict=True))
    return Load(
        len(counted) / SECONDS,
        statistics.median(counted) * 1e3,
        percentile(counted, 99) * 1e3,
        entries / max(proposals, 1),
    )


async def _produce(address: str, frame: bytes, ends: float, waits: list[tuple[float, float]]) -> None:
    """One batch after the other; when each was answered, and how long it took."""
    host, _, port = address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    at = time.perf_counter()
    while at < ends:
        code = await _ask(reader, writer, frame)
        if code is not ErrorCode.NONE:
            raise RuntimeError(f"a batch was refused: {code.name}")
        at, since = time.perf_counter(), at
        waits.append((at, at - since))
    writer.close()


async def _until_taken(address: str, frame: bytes) -> None:
    """A topic is not there at once, and comes into its group a moment later."""
    host, _, port = address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    async with asyncio.timeout(LIMIT_S):
        while await _ask(reader, writer, frame) is not ErrorCode.NONE:
            await asyncio.sleep(LOOK_S)
    writer.close()


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frame: bytes) -> ErrorCode:
    """What became of the only partition: behind the topic's name are a count, an index, and then the error."""
    writer.write(frame)
    answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    end_of_name = 6 + answer[6]
    return ErrorCode(int.from_bytes(answer[end_of_name + 5 : end_of_name + 7], "big", signed=True))


def _proposed(cluster: Cluster) -> tuple[int, int]:
    """How many records and batches the log of the storage group has, as it lies on the disk of a node."""
    counts = []
    with contextlib.suppress(IndexError, ValueError):
        for header, _ in batches(cluster.nodes[0].directory / "__storage_group-0"):
            if not header.is_control:
                counts.append(header.record_count)
    return sum(counts), len(counts)
