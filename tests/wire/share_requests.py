"""A request to a share coordinator of each kind, about a share partition that has begun."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.wire.raw_client import NOT_YET

from penstock.protocol.messages import delete_share_group_state as deleting
from penstock.protocol.messages import initialize_share_group_state as beginning
from penstock.protocol.messages import read_share_group_state as reading
from penstock.protocol.messages import read_share_group_state_summary as summing
from penstock.protocol.messages import write_share_group_state as writing
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message
from penstock.protocol.uuids import uuid_to_text

SHARE = 2


def _begun(asker: Any) -> str:
    """The group, which has begun in partition 0 of the topic."""
    group = str(asker.name)
    key = f"{group}:{uuid_to_text(asker.topic_id)}:0"
    find = FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[key])
    while asker.client.ask(find).coordinators[0].error_code in NOT_YET:
        pass
    while (error := asker.client.ask(_begin(asker)).results[0].partitions[0].error_code) in NOT_YET:
        pass
    assert not error
    return group


def _begin(asker: Any) -> beginning.InitializeShareGroupStateRequest:
    topic = beginning.InitializeStateData(
        topic_id=asker.topic_id, partitions=[beginning.PartitionData(partition=0, state_epoch=1)]
    )
    return beginning.InitializeShareGroupStateRequest(group_id=asker.name, topics=[topic])


def initialize(asker: Any) -> Message:
    _begun(asker)
    return _begin(asker)


def read(asker: Any) -> Message:
    topic = reading.ReadStateData(topic_id=asker.topic_id, partitions=[reading.PartitionData(partition=0)])
    return reading.ReadShareGroupStateRequest(group_id=_begun(asker), topics=[topic])


def write(asker: Any) -> Message:
    batch = writing.StateBatch(first_offset=0, last_offset=1, delivery_state=2, delivery_count=1)
    data = writing.PartitionData(partition=0, state_epoch=1, state_batches=[batch])
    topic = writing.WriteStateData(topic_id=asker.topic_id, partitions=[data])
    return writing.WriteShareGroupStateRequest(group_id=_begun(asker), topics=[topic])


def summarize(asker: Any) -> Message:
    topic = summing.ReadStateSummaryData(topic_id=asker.topic_id, partitions=[summing.PartitionData(partition=0)])
    return summing.ReadShareGroupStateSummaryRequest(group_id=_begun(asker), topics=[topic])


def delete(asker: Any) -> Message:
    topic = deleting.DeleteStateData(topic_id=asker.topic_id, partitions=[deleting.PartitionData(partition=0)])
    return deleting.DeleteShareGroupStateRequest(group_id=_begun(asker), topics=[topic])


REQUESTS: dict[ApiKey, Callable[[Any], Message]] = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: initialize,
    ApiKey.READ_SHARE_GROUP_STATE: read,
    ApiKey.WRITE_SHARE_GROUP_STATE: write,
    ApiKey.DELETE_SHARE_GROUP_STATE: delete,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: summarize,
}
