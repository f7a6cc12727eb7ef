"""How long a node takes from its start until its coordinator serves, with very many commits behind few live ones."""

import time
from typing import Any, Final

from bench.measure import Budget, Measure, measure
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

GROUPS: Final = 1_000
PARTITIONS: Final = 100
TIMES: Final = 100
"""Each group commits its offset in all partitions so often: ten million commits."""
TOPIC: Final = "read"
COMMIT_VERSION, FETCH_VERSION = 7, 7
AT_ONCE: Final = 50
PAUSE_S: Final = 0.02
LIMIT_S: Final = 60.0


def loading(runs: int) -> list[Measure]:
    """How long is it from the start of a process until all groups have been told what they committed?"""
    seconds, used = [], []
    with scratch() as directory:
        node = BrokerProcess(penstock_command, directory, {})
        create_topic(node.address, TOPIC, PARTITIONS)
        _commit_all(node)
        for _ in range(runs + 1):
            node.stop()
            node = BrokerProcess(penstock_command, directory, {})
            _ask_all(node)
            seconds.append(time.perf_counter() - node.started)
            used.append(node.cpu().total)
        node.stop()
    name = f"start until {GROUPS:,} groups are served, {GROUPS * PARTITIONS * TIMES:,} commits behind them"
    return [measure(name, "s", seconds[1:], Budget(3)), measure(f"{name}, CPU", "s", used[1:])]


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
    limit_s = time.perf_counter() + LIMIT_S
    while time.perf_counter() < limit_s:
        found = wire.ask(OffsetFetchRequest(group_id=group, topics=None), FETCH_VERSION)
        if found.error_code == ErrorCode.NONE:
            return found
        time.sleep(PAUSE_S)
    raise RuntimeError(f"{group} was not served within {LIMIT_S:g} s")


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
