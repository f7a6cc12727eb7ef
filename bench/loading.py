"""How long a node takes from its start until its coordinator serves, with very many commits behind few live ones."""

import time
from typing import Any, Final

from bench.measure import Budget, Figures, Measure
from bench.node import penstock_command, scratch
from bench.process import BrokerProcess
from bench.topics import create_topic
from bench.wire import Wire, framed
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.offset_fetch import OffsetFetchRequest
from penstock.testing.quorum_view import wait_until

GROUPS: Final = 1_000
PARTITIONS: Final = 100
TIMES: Final = 100
"""How often each group commits its offset in all partitions: ten million commits."""
TOPIC: Final = "read"
COMMIT_VERSION, FETCH_VERSION = 7, 7
AT_ONCE: Final = 50
LIMIT_S: Final = 60.0


def loading(runs: int) -> list[Measure]:
    """How long is it from the start of a process until all groups have been told what they committed?"""
    figures = Figures()
    name = f"start until {GROUPS:,} groups are served, {GROUPS * PARTITIONS * TIMES:,} commits behind them"
    with scratch() as directory:
        node = BrokerProcess(penstock_command, directory, {})
        create_topic(node.address, TOPIC, PARTITIONS)
        _commit_all(node)
        for number in range(runs + 1):
            node.stop()
            node = BrokerProcess(penstock_command, directory, {})
            _ask_all(node)
            seconds = time.perf_counter() - node.started
            if number:
                figures.add(name, "s", seconds, Budget(3))
                figures.add(f"{name}, CPU", "s", node.cpu().total)
        node.stop()
    return figures.measures()


def _commit_all(node: BrokerProcess) -> None:
    with Wire(node.address) as wire:
        _until_served(wire, _name(0))
        for number in range(TIMES):
            frame = _commit(_name(0), number)
            for first in range(0, GROUPS, AT_ONCE):
                names = [_name(group) for group in range(first, first + AT_ONCE)]
                frames = [frame.replace(_name(0).encode(), name.encode()) for name in names]
                wire.round_trip_ms(b"".join(frames), AT_ONCE)


def _ask_all(node: BrokerProcess) -> None:
    with Wire(node.address) as wire:
        for group in range(GROUPS):
            found = _until_served(wire, _name(group))
            offsets = {one.partition_index: one.committed_offset for topic in found.topics for one in topic.partitions}
            if offsets != {index: _offset(index, TIMES - 1) for index in range(PARTITIONS)}:
                raise RuntimeError(f"{_name(group)} has lost what it committed: {offsets}")


def _until_served(wire: Wire, group: str) -> Any:
    def look() -> Any:
        found = wire.ask(OffsetFetchRequest(group_id=group, topics=None), FETCH_VERSION)
        return found if found.error_code == ErrorCode.NONE else None

    return wait_until(look, LIMIT_S, f"{group} is served")


def _commit(group: str, number: int) -> bytes:
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=_offset(index, number))
        for index in range(PARTITIONS)
    ]
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)
    return framed(OffsetCommitRequest(group_id=group, topics=[topic]), COMMIT_VERSION)


def _name(group: int) -> str:
    return f"group-{group:03}"


def _offset(index: int, number: int) -> int:
    return 1_000_000 * index + 1_000 * number
