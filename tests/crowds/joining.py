"""Members of the consumer protocol, a connection each, of a topic with a partition for each, and one for who comes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from bench.child import Child
from bench.process import BrokerProcess
from bench.topics import create_topic
from bench.versus.members import changes
from bench.versus.systems import Effort, Figure, Line, Sample, both, compared, sample_of
from tests.crowds.neighbour import Neighbour, make_topic

MEMBERS: Final = 1_000
TOPIC: Final = "shared"
FIGURES: Final = (
    Figure("first join to stable", "s", "lower"),
    Figure("one more, to stable", "s", "lower"),
    Figure("one less, to stable", "s", "lower"),
    Figure("a neighbour's p99 meanwhile", "ms", "lower", bar=None, own=20),
)


def joining(effort: Effort) -> list[Line]:
    members = effort.records(MEMBERS)
    with both() as brokers:
        for broker in brokers.values():
            create_topic(broker.address, TOPIC, members + 1)
            make_topic(broker.address)
        name = f"{members:,} members, {members + 1:,} partitions"
        return compared(effort, "joining", FIGURES, brokers, {name: partial(_joined, members=members)})


def _joined(broker: BrokerProcess, number: int, *, members: int) -> Sample:
    with Neighbour(broker.address) as neighbour:
        found = Child(moments, broker.address, f"crowd-{number}", members).result()
    begun, formed, more, less = found
    p99_ms = neighbour.p99_ms(begun, formed)
    return sample_of(FIGURES, formed - begun, more, less, p99_ms)


def moments(address: str, name: str, members: int) -> Sequence[float]:
    """As `changes` has them."""
    return asyncio.run(_moments(address, name, members))


async def _moments(address: str, name: str, members: int) -> Sequence[float]:
    group, *found = await changes(address, TOPIC, name, members, members + 1)
    group.close()
    return found
