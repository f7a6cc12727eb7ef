"""What Kafka 4.4 has in its messages beyond what the package kio knows: APIs, versions, fields, and newer names."""

from typing import Final, NamedTuple


class NewField(NamedTuple):
    """A field from version `since` on. It stands behind the field `after`, or last."""

    name: str
    kind: str
    """A type of the protocol or a structure, `[]` before it for an array, `?` behind it where null is allowed."""
    since: int
    default: object = None
    after: str | None = None


class NewApi(NamedTuple):
    """An API that has only a version 0, which is flexible: for each of its structures the fields, the message last."""

    key: int
    folder: str
    request: dict[str, list[NewField]]
    response: dict[str, list[NewField]]


NEWEST_VERSIONS: Final = {
    "ApiVersionsRequest": 5,
    "ApiVersionsResponse": 5,
    "DeleteGroupsRequest": 3,
    "DeleteGroupsResponse": 3,
    "StreamsGroupDescribeRequest": 1,
    "StreamsGroupDescribeResponse": 1,
    "StreamsGroupHeartbeatRequest": 1,
    "StreamsGroupHeartbeatResponse": 1,
    "TxnOffsetCommitRequest": 6,
    "TxnOffsetCommitResponse": 6,
}
"""Of messages that kio knows in older versions only. Their fields stay in the newer ones, but for those in `ENDED`."""

RENAMED: Final = {
    ("StreamsGroupHeartbeatResponse", "acceptable_recovery_lag"): "acceptable_recovery_lag_legacy",
    ("TxnOffsetCommitRequest", "generation_id"): "generation_id_or_member_epoch",
}
"""By structure and kio's name of the field."""

ENDED: Final = {
    ("StreamsGroupHeartbeatResponse", "acceptable_recovery_lag_legacy"),
    ("TxnOffsetCommitRequestTopic", "name"),
    ("TxnOffsetCommitResponseTopic", "name"),
}
"""Fields that are not in the newer versions, by structure and name."""


def _topology_description(since: int) -> dict[str, list[NewField]]:
    return {
        "TopologyDescriptionNode": [
            NewField("name", "string", since, ""),
            NewField("node_type", "int8", since, 0),
            NewField("source_topics", "[]string", since),
            NewField("sink_topic", "string?", since, None),
            NewField("stores", "[]string", since),
            NewField("successors", "[]string", since),
        ],
        "TopologyDescriptionSubtopology": [
            NewField("subtopology_id", "string", since, ""),
            NewField("nodes", "[]TopologyDescriptionNode", since),
        ],
        "TopologyDescriptionGlobalStore": [
            NewField("source", "TopologyDescriptionNode", since),
            NewField("processor", "TopologyDescriptionNode", since),
        ],
        "TopologyDescription": [
            NewField("subtopologies", "[]TopologyDescriptionSubtopology", since),
            NewField("global_stores", "[]TopologyDescriptionGlobalStore", since),
        ],
    }


NEW_FIELDS: Final[dict[str, dict[str, list[NewField]]]] = {
    "ApiVersionsRequest": {
        "ApiVersionsRequest": [NewField("cluster_id", "string?", 5, None), NewField("node_id", "int32", 5, -1)],
    },
    "DeleteGroupsResponse": {
        "DeletableGroupResult": [NewField("error_message", "string?", 3, None)],
    },
    "StreamsGroupDescribeRequest": {
        "StreamsGroupDescribeRequest": [NewField("include_topology_description", "bool", 1, False)],
    },
    "StreamsGroupDescribeResponse": {
        **_topology_description(1),
        "DescribedGroup": [
            NewField("topology_description", "TopologyDescription?", 1, None),
            NewField("topology_description_status", "int8", 1, 0),
            NewField("assignor_name", "string?", 1, None),
        ],
    },
    "StreamsGroupHeartbeatResponse": {
        "StreamsGroupHeartbeatResponse": [
            NewField("acceptable_recovery_lag", "int64", 1, -1, after="task_offset_interval_ms"),
            NewField("topology_description_required", "bool", 1, False, after="warmup_tasks"),
        ],
    },
    "TxnOffsetCommitRequest": {
        "TxnOffsetCommitRequestTopic": [NewField("topic_id", "uuid", 6, after="name")],
    },
    "TxnOffsetCommitResponse": {
        "TxnOffsetCommitResponseTopic": [NewField("topic_id", "uuid", 6, after="name")],
    },
}
"""By message and structure."""

_ERROR: Final = [
    NewField("throttle_time_ms", "int32", 0, 0),
    NewField("error_code", "int16", 0, 0),
    NewField("error_message", "string?", 0, None),
]

NEW_APIS: Final = (
    NewApi(
        93,
        "streams_group_topology_description_update",
        {
            **_topology_description(0),
            "StreamsGroupTopologyDescriptionUpdateRequest": [
                NewField("group_id", "string", 0, ""),
                NewField("member_id", "string", 0, ""),
                NewField("topology_epoch", "int32", 0, 0),
                NewField("topology_description", "TopologyDescription", 0),
            ],
        },
        {"StreamsGroupTopologyDescriptionUpdateResponse": _ERROR},
    ),
    NewApi(
        94,
        "unregister_controller",
        {"UnregisterControllerRequest": [NewField("controller_id", "int32", 0, 0)]},
        {"UnregisterControllerResponse": _ERROR},
    ),
)
