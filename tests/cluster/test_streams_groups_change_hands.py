"""A directory with a streams group in the midst of a rebalance goes to Apache Kafka, is killed there, and comes back.

Its members go on with each system as if nothing had been: none is put out, and no task is active at two of them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from bench.hand_in_hand.node import single_node
from bench.topics import create_topic
from bench.versus.kafka import MissingToolError, fetch, java
from bench.versus.systems import KAFKA, PENSTOCK
from tests.wire.raw_client import NOT_YET, RawClient

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
    Subtopology,
    Topology,
)
from penstock.testing.quorum_view import wait_until

GROUP: Final = "wordcount"
SECONDS: Final = 300.0
TASKS: Final = 4
SETTINGS: Final = {"group.streams.session.timeout.ms": "60000", "group.streams.initial.rebalance.delay.ms": "0"}


class Member:
    def __init__(self, address: str, member_id: str) -> None:
        self.address, self.member_id = address, member_id
        self.epoch, self.runs = 0, list[int]()

    def beat(self, *, says: bool = True) -> None:
        """`says` what it runs: as a real one, after it was told to run others."""
        request = StreamsGroupHeartbeatRequest(group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch)
        if self.epoch == 0:
            topology = Topology(subtopologies=[Subtopology(subtopology_id="0", source_topics=["words"])])
            request = request.replace(rebalance_timeout_ms=300_000, topology=topology, process_id=self.member_id)
        if self.epoch == 0 or says:
            active = [StreamsGroupHeartbeatRequestTaskIds(subtopology_id="0", partitions=self.runs)]
            request = request.replace(active_tasks=active if self.runs else [], standby_tasks=[], warmup_tasks=[])
        answer = wait_until(lambda: self._asked(request), SECONDS, f"an answer to {self.member_id}")
        assert answer.error_code == ErrorCode.NONE, f"{ErrorCode(answer.error_code).name}: {answer.error_message}"
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            self.runs = sorted(number for one in answer.active_tasks for number in one.partitions)

    def _asked(self, request: StreamsGroupHeartbeatRequest) -> Any:
        """None if the coordinator is not there yet."""
        try:
            with RawClient(self.address) as client:
                client.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), 4)
                answer = client.ask(request, 0)
        except (OSError, struct.error):
            return None
        return None if answer.error_code in NOT_YET else answer


def settle(*members: Member, until: Callable[[], bool]) -> None:
    def is_so() -> bool | None:
        for member in members:
            member.beat()
            running = [number for one in members for number in one.runs]
            assert len(running) == len(set(running)), "a task runs at two members"
        return until() or None

    wait_until(is_so, SECONDS, "the tasks at their members")


@pytest.mark.soak
def test_members_go_on_with_either_system(tmp_path: Path) -> None:
    try:
        fetch("kafka")
        java()
    except MissingToolError as error:
        pytest.skip(str(error))
    node, address = single_node(tmp_path, SETTINGS)
    node.format(PENSTOCK, "--release-version", "4.4")
    a, b, c = (Member(address, f"member-{name}") for name in "abc")
    with node.serving(PENSTOCK, address):
        create_topic(address, "words", TASKS, limit_s=SECONDS)
        settle(a, until=lambda: len(a.runs) == TASKS)
        b.beat()
        while len(a.runs) == TASKS:  # until it hears what it is to give up
            a.beat(says=False)
    with node.serving(KAFKA, address):
        settle(a, b, until=lambda: len(a.runs) == len(b.runs) == TASKS // 2)
        c.beat()
    with node.serving(PENSTOCK, address):
        settle(a, b, c, until=lambda: sorted(map(len, (a.runs, b.runs, c.runs))) == [1, 1, 2])
