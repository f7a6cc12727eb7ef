"""The fields of our own messages, with their kinds, versions, tags and defaults: they never change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.protocol.requests import own_apis, share_progress
from penstock.protocol.schema import Field, Message

FIELDS = """
ResignControllerRequest: leader_epoch: int32 0+ = -1; successor_id: int32 0+ = -1
ResignControllerResponse: error_code: int16 0+ = 0; error_message: string 0+ nullable 0+ = None
DescribeMetadataRequest:
DescribeMetadataResponse: error_code: int16 0+ = 0; error_message: string 0+ nullable 0+ = None;
    node_id: int32 0+ = -1; offset: int64 0+ = -1; epoch: int32 0+ = -1; checksum: string 0+ = ''
DescribeMetricsRequest: of_the_whole: bool 0+ tag 0 in 0+ = False
Metric: group: string 0+ = ''; name: string 0+ = ''; value: string 0+ = ''
DescribeMetricsResponse: error_code: int16 0+ = 0; error_message: string 0+ nullable 0+ = None;
    node_id: int32 0+ = -1; metrics: Metric[] 0+ = []
DescribeCompactionRequest:
CompactedLog: topic: string 0+ = ''; partition: int32 0+ = -1; dirty_percent: int32 0+ = -1;
    cleaned_ms: int64 0+ = -1; problem: string 0+ nullable 0+ = None
DescribeCompactionResponse: error_code: int16 0+ = 0; error_message: string 0+ nullable 0+ = None;
    logs: CompactedLog[] 0+ = []
BalanceLeadersRequest: action: int8 0+ = 0; timeout_ms: int32 0+ = 60000
BalanceLeadersResponse: error_code: int16 0+ = 0; error_message: string 0+ nullable 0+ = None;
    is_balancing: bool 0+ = False; moved: int32 0+ = 0; topic: string 0+ nullable 0+ = None;
    partition: int32 0+ = -1; giver: int32 0+ = -1; taker: int32 0+ = -1; catching_up: int32 0+ = 0;
    late: int32[] 0+ = []
HandOverLeaderRequest: broker_id: int32 0+ = -1; broker_epoch: int64 0+ = -1;
    topic_id: uuid 0+ = UUID('00000000-0000-0000-0000-000000000000'); partition: int32 0+ = -1;
    leader_epoch: int32 0+ = -1; partition_epoch: int32 0+ = -1; successor: int32 0+ = -1;
    is_stopping: bool 0+ = False; has_no_room: bool 0+ = False
HandOverLeaderResponse: error_code: int16 0+ = 0; error_message: string 0+ nullable 0+ = None;
    topic_id: uuid 0+ = UUID('00000000-0000-0000-0000-000000000000'); partition: int32 0+ = -1;
    leader_epoch: int32 0+ = -1; successor: int32 0+ = -1
GroupVoter: voter_id: int32 0+ = -1; directory_id: uuid 0+ = UUID('00000000-0000-0000-0000-000000000000')
ClaimStorageGroupRequest: broker_id: int32 0+ = -1; broker_epoch: int64 0+ = -1; group: int32 0+ = -1;
    group_epoch: int32 0+ = -1; caught_up: int32[] 0+ = []; voters: GroupVoter[] 0+ = [];
    partition_epoch: int32 0+ = -1
ClaimStorageGroupResponse: error_code: int16 0+ = 0; error_message: string 0+ nullable 0+ = None
CreateStorageGroupRequest: replication_factor: int16 0+ = -1; replicas: int32[] 0+ = [];
    timeout_ms: int32 0+ = 60000
CreateStorageGroupResponse: error_code: int16 0+ = 0; error_message: string 0+ nullable 0+ = None;
    group: int32 0+ = -1; replicas: int32[] 0+ = []
ForwardToCoordinatorRequest: partition: int32 0+ = -1; leader_epoch: int32 0+ = -1;
    envelope: bytes 0+ nullable 0+ = None; key_type: int8 0+ tag 0 in 0+ = 0
ForwardToCoordinatorResponse: error_code: int16 0+ = 0; envelope: bytes 0+ nullable 0+ = None
CommittedPositionsRequest: topic_id: uuid 0+ = UUID('00000000-0000-0000-0000-000000000000');
    key_type: int8 0+ = 0
PositionOfGroup: partition: int32 0+ = -1; offset: int64 0+ = -1
PositionsOfGroup: group_id: string 0+ = ''; positions: PositionOfGroup[] 0+ = []
CoordinatedPositions: partition: int32 0+ = -1; leader_epoch: int32 0+ = -1; groups: PositionsOfGroup[] 0+ = []
CommittedPositionsResponse: error_code: int16 0+ = 0; partition_count: int32 0+ = 0;
    coordinated: CoordinatedPositions[] 0+ = []
DescribeHoldersRequest: topic: string 0+ = ''
HeldPartition: partition: int32 0+ = -1; offset: int64 0+ = -1; held_bytes: int64 0+ = 0
Holder: group_id: string 0+ = ''; partitions: HeldPartition[] 0+ = []
DescribeHoldersResponse: error_code: int16 0+ = 0; error_message: string 0+ nullable 0+ = None;
    groups: Holder[] 0+ = []
DescribeGroupHistoryRequest: groups: string[] 0+ = []
GroupChange: what: int8 0+ = 0; member_id: string 0+ = ''; instance_id: string 0+ nullable 0+ = None
MovedPartitions: topic: string 0+ = ''; giver: string 0+ = ''; taker: string 0+ = '';
    partitions: int32[] 0+ = []
MemberTime: member_id: string 0+ = ''; took_ms: int64 0+ = -1; own_ms: int64 0+ = -1
GroupEpoch: number: int32 0+ = 0; kind: string 0+ = ''; epoch: int32 0+ = -1; started_ms: int64 0+ = -1;
    formed_ms: int64 0+ = -1; ended_ms: int64 0+ = -1; members: int32 0+ = 0; cause: string 0+ = '';
    changes: GroupChange[] 0+ = []; unnamed: int32 0+ = 0; moved: int32 0+ = 0;
    moves: MovedPartitions[] 0+ = []; times: MemberTime[] 0+ = []
Awaited: member_id: string 0+ = ''; what: string 0+ = ''; since_ms: int64 0+ = -1; until_ms: int64 0+ = -1;
    partitions: MovedPartitions[] 0+ = []
DescribedHistory: group_id: string 0+ = ''; error_code: int16 0+ = 0;
    error_message: string 0+ nullable 0+ = None; now_ms: int64 0+ = -1; epochs: GroupEpoch[] 0+ = [];
    awaited: Awaited[] 0+ = []
DescribeGroupHistoryResponse: groups: DescribedHistory[] 0+ = []
SharePartitionAt: partition: int32 0+ = -1; start_offset: int64 0+ = -1
ShareTopicAt: topic_name: string 0+ = ''; partitions: SharePartitionAt[] 0+ = []
DescribeSharePartitionsRequest: group_id: string 0+ = ''; topics: ShareTopicAt[] 0+ = []
DescribedSharePartition: partition: int32 0+ = -1; is_read: bool 0+ = False; backlog: int64 0+ = -1;
    oldest_ms: int64 0+ = -1; in_flight: int32 0+ = 0; held: int32 0+ = 0;
    deliveries_per_second: float64 0+ = 0.0; redeliveries_per_second: float64 0+ = 0.0; pause_ms: int64 0+ = -1
DescribedShareTopic: topic_name: string 0+ = ''; error_code: int16 0+ = 0;
    partitions: DescribedSharePartition[] 0+ = []
DescribeSharePartitionsResponse: error_code: int16 0+ = 0; now_ms: int64 0+ = -1;
    topics: DescribedShareTopic[] 0+ = []
"""


def declared(kind: type[Message]) -> str:
    fields = "; ".join(f"{name}: {_declared(it)}" for name, it in kind.__fields__.items())
    return f"{kind.__name__}: {fields}".strip()


def _declared(it: Field) -> str:
    kind: Any = it.kind
    words = [kind if isinstance(kind, str) else kind.__name__, "[]" * it.is_array, f" {it.versions}"]
    words += [f" nullable {it.nullable}"] if it.nullable else []
    words += [f" tag {it.tag} in {it.tagged}"] if it.tag is not None else []
    return "".join([*words, f" = {it.new_default()!r}", "" if it.flexible else " inflexible"])


def all_of(module: Any) -> Iterable[type[Message]]:
    for one in vars(module).values():
        if isinstance(one, type) and issubclass(one, Message) and one.__module__ == module.__name__:
            yield one


def test_fields_are_as_they_were() -> None:
    found = [declared(kind) for module in (own_apis, share_progress) for kind in all_of(module)]
    assert found == FIELDS.strip("\n").replace("\n    ", " ").split("\n")
