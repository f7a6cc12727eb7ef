"""What a node says of a storage group that it does not run, and of a group whose topology comes too early."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.metadata.features import STREAMS_VERSION
from penstock.node.api.storage_group_requests import NOT_HERE, _not_here, _running
from penstock.node.api.streams_groups import streams_group_topology_description_update as topologies
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.uuids import ZERO_UUID
from penstock.raft.log_name import LogName


@pytest.mark.parametrize("key", [ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH])
def test_a_group_that_is_not_here_has_no_epoch(key: ApiKey) -> None:
    answer: Any = _not_here(key, LogName("__storage_groups", ZERO_UUID, 3))
    (topic,) = answer.topics
    (partition,) = topic.partitions
    told = topic.topic_name, partition.partition_index, partition.error_code, partition.leader_id
    assert told == ("__storage_groups", 3, NOT_HERE, -1)
    assert partition.leader_epoch == 0


@pytest.mark.parametrize(("is_there", "is_running", "found"), [(True, True, 1), (True, False, 0), (False, True, 0)])
def test_a_replica_answers_while_it_runs(is_there: bool, is_running: bool, found: int) -> None:
    replica: Any = SimpleNamespace(is_running=is_running)
    groups = SimpleNamespace(by_number={3: replica} if is_there else {})
    assert _running(cast("Any", SimpleNamespace(storage_groups=groups)), 3) is (replica if found else None)


@pytest.mark.parametrize(
    ("level", "group", "found"),
    [
        (1, "g", "updated g"),
        (0, "g", ErrorCode.UNSUPPORTED_VERSION),
        (None, "g", ErrorCode.UNSUPPORTED_VERSION),
        (1, "lost", ErrorCode.NOT_COORDINATOR),
    ],
)
def test_a_topology_is_put_to_the_coordinator(level: int | None, group: str, found: Any) -> None:
    def find(group_id: str) -> Any:
        if group_id == "lost":
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        machine = SimpleNamespace(update_topology_description=lambda request: f"updated {request.group_id}")
        return SimpleNamespace(machine=machine, ask=lambda event, request: event(request))

    broker: Any = SimpleNamespace(
        image=SimpleNamespace(features={} if level is None else {STREAMS_VERSION: level}),
        groups=SimpleNamespace(find=find, departures={}),
    )
    request = StreamsGroupTopologyDescriptionUpdateRequest(group_id=group)
    update = topologies.streams_group_topology_description_update
    answer: Any = update(broker, cast("Any", None), request)
    assert (answer if isinstance(answer, str) else answer.error_code) == found
