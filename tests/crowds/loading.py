"""A broker begins to lead the partition in which very many members of consumer groups are.

The records are the same for both systems. How long they take is the difference between two starts of a broker, from the
process to the first answer about a group: with these records in the partition, and with none.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Final
from uuid import UUID

from bench.process import BrokerProcess, running, scratch
from bench.versus.systems import COMMANDS, Effort, Figure, Line, Sample, compared, sample_of
from bench.wire import PRODUCE_VERSION, Wire, produce_request
from tests.crowds.neighbour import Neighbour, make_topic

from penstock.coordinator.effects import KeyValue
from penstock.coordinator.group.consumer.records import ASSIGNMENT, CURRENT, GROUP, MEMBER, TARGET
from penstock.coordinator.group.consumer.state import ConsumerRecord
from penstock.coordinator.group.consumer.values import STABLE, Current, GroupEpoch, Subscription
from penstock.coordinator.group.epochs import AssignmentEpoch
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.produce import ProduceResponse
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.requests.framing import encode_request
from penstock.testing.quorum_view import wait_until

MEMBERS: Final = 100_000
IN_A_GROUP: Final = 100
IN_A_BATCH: Final = 1_000
"""Records."""
OFFSETS: Final = "__consumer_offsets"
ONE_PARTITION: Final = {"offsets.topic.num.partitions": "1"}
WRITES_THERE: Final = "__admin_client"
"""The client id that brokers let write to their own topics."""
LIMIT_S: Final = 120.0
DESCRIBE_VERSION, FIND_VERSION = 0, 4
FIGURES: Final = (
    Figure("start to an answer, no members", "s", "lower", bar=None),
    Figure("start to an answer", "s", "lower", bar=None),
    Figure("loading", "s", "lower"),
    Figure("a neighbour's p99 meanwhile", "ms", "lower", bar=None, own=20),
)


def loading(effort: Effort) -> list[Line]:
    members = effort.records(MEMBERS)
    with scratch() as directory:
        for system in COMMANDS:
            for count in (0, members):
                with started(system, directory, count) as broker:
                    make_topic(broker.address)
                    answer_about(broker.address, group_name(0), 0)
                    write(broker.address, records_of(count))
        work = partial(_loaded, directory=directory, members=members)
        return compared(effort, "loading", FIGURES, {name: name for name in COMMANDS}, {f"{members:,} members": work})


def started(system: str, directory: Path, members: int) -> AbstractContextManager[BrokerProcess]:
    return running(COMMANDS[system], directory / f"{system}-{members}", ONE_PARTITION)


def _loaded(system: str, _: int, *, directory: Path, members: int) -> Sample:
    with started(system, directory, 0) as broker:
        alone_s = answer_about(broker.address, group_name(0), 0) - broker.started
    with started(system, directory, members) as broker, Neighbour(broker.address) as neighbour:
        begun = time.perf_counter()
        answered = answer_about(broker.address, group_name(0), IN_A_GROUP)
    full_s = answered - broker.started
    return sample_of(FIGURES, alone_s, full_s, full_s - alone_s, neighbour.p99_ms(begun, answered))


def answer_about(address: str, group_id: str, members: int) -> float:
    """The moment (perf_counter) at which the group is described, which has so many members; 0: there is none."""
    with Wire(address, LIMIT_S) as wire:

        def described() -> float | None:
            wire.ask(FindCoordinatorRequest(coordinator_keys=[group_id]), FIND_VERSION)  # has the topic made
            (group,) = wire.ask(ConsumerGroupDescribeRequest(group_ids=[group_id]), DESCRIBE_VERSION).groups
            wanted = ErrorCode.NONE if members else ErrorCode.GROUP_ID_NOT_FOUND
            if group.error_code != wanted:
                return None
            assert len(group.members) == members, group
            return time.perf_counter()

        return wait_until(described, LIMIT_S, f"an answer about {group_id}")


def group_name(number: int) -> str:
    return f"group-{number:05d}"


def records_of(members: int) -> Iterator[KeyValue]:
    """Groups of one topic that is not there any more, each of members that have a partition each."""
    topic = UUID(int=1)
    for number in range(members // IN_A_GROUP):
        group_id = group_name(number)
        yield ConsumerRecord(group_id, GroupEpoch(5, 7), GROUP).encode()
        yield ConsumerRecord(group_id, AssignmentEpoch(5, 1), ASSIGNMENT).encode()
        for index in range(IN_A_GROUP):
            member_id = str(UUID(int=number << 64 | index))
            said = Subscription(None, None, "a-client", "/10.0.0.1", ("a-topic",), None, 300_000, None, None)
            yield ConsumerRecord(group_id, said, MEMBER, member_id).encode()
            yield ConsumerRecord(group_id, {topic: (index,)}, TARGET, member_id).encode()
            current = Current(5, 4, STABLE, {topic: {index: 5}}, {})
            yield ConsumerRecord(group_id, current, CURRENT, member_id).encode()


def write(address: str, records: Iterator[KeyValue]) -> None:
    now_ms = time.time_ns() // 1_000_000
    with Wire(address, LIMIT_S) as wire:
        batch = list[Record]()
        for key, value in records:
            batch.append(Record(0, now_ms, key, value, []))
            if len(batch) == IN_A_BATCH:
                _send(wire, batch)
                batch = []
        if batch:
            _send(wire, batch)


def _send(wire: Wire, batch: list[Record]) -> None:
    request = produce_request(OFFSETS, bytes(encode_batch(batch)))
    wire.send(encode_request(request, PRODUCE_VERSION, 1, WRITES_THERE))
    answer: ProduceResponse = wire.answer_to(request, PRODUCE_VERSION)
    (partition,) = answer.responses[0].partition_responses
    assert partition.error_code == ErrorCode.NONE, partition
