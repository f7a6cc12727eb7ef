"""A request of a member, or of who looks after its group, of each kind: about a share group that is made for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.wire.raw_client import NOT_YET

from penstock.protocol.messages import alter_share_group_offsets as altering
from penstock.protocol.messages import delete_share_group_offsets as deleting
from penstock.protocol.messages import describe_share_group_offsets as describing
from penstock.protocol.messages import share_fetch as fetching
from penstock.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from penstock.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from penstock.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message

TOPIC = "every-version"
MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"


def heartbeat(asker: Any) -> Message:
    asker.client.find_coordinator(asker.name)
    return ShareGroupHeartbeatRequest(group_id=asker.name, member_id=MEMBER, subscribed_topic_names=[TOPIC])


def describe(asker: Any) -> Message:
    asker.client.ask(heartbeat(asker))
    return ShareGroupDescribeRequest(group_ids=[asker.name], include_authorized_operations=True)


def fetch(asker: Any) -> Message:
    asker.client.ask(heartbeat(asker))
    topic = fetching.FetchTopic(topic_id=asker.topic_id, partitions=[fetching.FetchPartition(partition_index=0)])
    return fetching.ShareFetchRequest(group_id=asker.name, member_id=MEMBER, max_records=1, topics=[topic])


def acknowledge(asker: Any) -> Message:
    asker.client.ask(fetch(asker))
    return ShareAcknowledgeRequest(group_id=asker.name, member_id=MEMBER, share_session_epoch=1)


def alter(asker: Any) -> Message:
    leaving = heartbeat(asker)
    asker.client.ask(leaving)
    asker.client.ask(leaving.replace(member_epoch=-1))
    partition = altering.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=1)
    topic = altering.AlterShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=[partition])
    return altering.AlterShareGroupOffsetsRequest(group_id=asker.name, topics=[topic])


def _altered(asker: Any) -> str:
    request = alter(asker)
    while asker.client.ask(request).error_code in NOT_YET:
        pass
    return str(asker.name)


def describe_offsets(asker: Any) -> Message:
    group = describing.DescribeShareGroupOffsetsRequestGroup(group_id=_altered(asker), topics=None)
    return describing.DescribeShareGroupOffsetsRequest(groups=[group])


def delete(asker: Any) -> Message:
    topic = deleting.DeleteShareGroupOffsetsRequestTopic(topic_name=TOPIC)
    return deleting.DeleteShareGroupOffsetsRequest(group_id=_altered(asker), topics=[topic])


REQUESTS: dict[ApiKey, Callable[[Any], Message]] = {
    ApiKey.SHARE_GROUP_HEARTBEAT: heartbeat,
    ApiKey.SHARE_GROUP_DESCRIBE: describe,
    ApiKey.SHARE_FETCH: fetch,
    ApiKey.SHARE_ACKNOWLEDGE: acknowledge,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: describe_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: alter,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: delete,
}
