"""What each API asks for, on what, and what comes of a refusal: from KafkaApis, ControllerApis and ConfigHelper."""

from __future__ import annotations

from typing import Final

from tests.unit.node.api.asked import GROUPS, TOPICS, TRANSACTIONS

from penstock.protocol.requests.api import AnyApiKey, ApiKey, OwnApiKey

Effects = dict[str, str]


def on_cluster(operation: str) -> Effects:
    return {f"{operation} CLUSTER kafka-cluster": "whole"}


def on_topics(operation: str) -> Effects:
    return {f"{operation} TOPIC {name}": "item" for name in TOPICS}


def on_groups(operation: str) -> Effects:
    return {f"{operation} GROUP {name}": "item" for name in GROUPS}


def instead(operation: str) -> Effects:
    return {f"{operation} CLUSTER kafka-cluster": "or"}


def configs(operation: str, loggers: str | None) -> Effects:
    asked = {
        f"{operation} TOPIC flights": "item",
        f"{operation} GROUP readers": "item",
        f"{operation} CLUSTER kafka-cluster": "item",
    }
    return asked if loggers in (None, operation) else {**asked, f"{loggers} CLUSTER kafka-cluster": "item"}


NODES = on_cluster("CLUSTER_ACTION")
THE_GROUP = {"READ GROUP readers": "whole"}

KAFKA: dict[AnyApiKey, Effects] = {
    ApiKey.API_VERSIONS: {},
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: {},
    ApiKey.PUSH_TELEMETRY: {},
    ApiKey.SASL_HANDSHAKE: {},
    ApiKey.SASL_AUTHENTICATE: {},
    # records and offsets
    ApiKey.LIST_OFFSETS: on_topics("DESCRIBE"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: instead("CLUSTER_ACTION") | on_topics("DESCRIBE"),
    ApiKey.DELETE_RECORDS: on_topics("DELETE"),
    ApiKey.DESCRIBE_PRODUCERS: on_topics("READ"),
    ApiKey.INIT_PRODUCER_ID: {"WRITE TRANSACTIONAL_ID payments": "whole"},
    # transactions
    ApiKey.ADD_OFFSETS_TO_TXN: {"WRITE TRANSACTIONAL_ID payments": "whole", "READ GROUP readers": "whole"},
    ApiKey.END_TXN: {"WRITE TRANSACTIONAL_ID payments": "whole"},
    ApiKey.DESCRIBE_TRANSACTIONS: {f"DESCRIBE TRANSACTIONAL_ID {name}": "item" for name in TRANSACTIONS},
    ApiKey.LIST_TRANSACTIONS: {f"DESCRIBE TRANSACTIONAL_ID {name}": "told" for name in TRANSACTIONS},
    ApiKey.WRITE_TXN_MARKERS: {"ALTER CLUSTER kafka-cluster": "or", "CLUSTER_ACTION CLUSTER kafka-cluster": "whole"},
    # groups
    ApiKey.JOIN_GROUP: THE_GROUP,
    ApiKey.SYNC_GROUP: THE_GROUP,
    ApiKey.HEARTBEAT: THE_GROUP,
    ApiKey.LEAVE_GROUP: THE_GROUP,
    ApiKey.OFFSET_COMMIT: THE_GROUP | on_topics("READ"),
    ApiKey.TXN_OFFSET_COMMIT: {"WRITE TRANSACTIONAL_ID payments": "whole"} | THE_GROUP | on_topics("READ"),
    ApiKey.OFFSET_DELETE: {"DELETE GROUP readers": "whole"} | on_topics("READ"),
    ApiKey.DELETE_GROUPS: on_groups("DELETE"),
    ApiKey.DESCRIBE_GROUPS: on_groups("DESCRIBE"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: THE_GROUP | {f"DESCRIBE TOPIC {name}": "whole" for name in TOPICS},
    ApiKey.CONSUMER_GROUP_DESCRIBE: on_groups("DESCRIBE"),
    ApiKey.SHARE_FETCH: THE_GROUP,
    ApiKey.SHARE_ACKNOWLEDGE: THE_GROUP,
    # share groups
    ApiKey.SHARE_GROUP_HEARTBEAT: THE_GROUP | {f"DESCRIBE TOPIC {name}": "whole" for name in TOPICS},
    ApiKey.SHARE_GROUP_DESCRIBE: on_groups("DESCRIBE"),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: on_groups("DESCRIBE"),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: THE_GROUP | on_topics("READ"),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: {"DELETE GROUP readers": "whole"} | on_topics("READ"),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: NODES,
    ApiKey.READ_SHARE_GROUP_STATE: NODES,
    ApiKey.WRITE_SHARE_GROUP_STATE: NODES,
    ApiKey.DELETE_SHARE_GROUP_STATE: NODES,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: NODES,
    # streams groups
    ApiKey.STREAMS_GROUP_HEARTBEAT: THE_GROUP | {f"DESCRIBE TOPIC {name}": "whole" for name in TOPICS},
    ApiKey.STREAMS_GROUP_DESCRIBE: on_groups("DESCRIBE"),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: THE_GROUP,
    ApiKey.LIST_GROUPS: instead("DESCRIBE") | {f"DESCRIBE GROUP {name}": "told" for name in GROUPS},
    # topics
    ApiKey.CREATE_TOPICS: instead("CREATE")
    | on_topics("CREATE")
    | {f"DESCRIBE_CONFIGS TOPIC {name}": "told" for name in TOPICS},
    ApiKey.DELETE_TOPICS: instead("DELETE") | on_topics("DESCRIBE") | on_topics("DELETE"),
    ApiKey.CREATE_PARTITIONS: on_topics("ALTER"),
    # configs
    ApiKey.DESCRIBE_CONFIGS: configs("DESCRIBE_CONFIGS", "DESCRIBE_CONFIGS"),
    ApiKey.ALTER_CONFIGS: configs("ALTER_CONFIGS", None),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs("ALTER_CONFIGS", "CLUSTER_ACTION"),
    ApiKey.LIST_CONFIG_RESOURCES: on_cluster("DESCRIBE_CONFIGS"),
    # the cluster
    ApiKey.DESCRIBE_CLIENT_QUOTAS: on_cluster("DESCRIBE_CONFIGS"),
    ApiKey.ALTER_CLIENT_QUOTAS: on_cluster("ALTER_CONFIGS"),
    ApiKey.DESCRIBE_ACLS: on_cluster("DESCRIBE"),
    ApiKey.CREATE_ACLS: on_cluster("ALTER"),
    ApiKey.DELETE_ACLS: on_cluster("ALTER"),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: on_cluster("DESCRIBE"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: on_cluster("ALTER"),
    ApiKey.CREATE_DELEGATION_TOKEN: {},
    ApiKey.RENEW_DELEGATION_TOKEN: {},
    ApiKey.EXPIRE_DELEGATION_TOKEN: {},
    ApiKey.DESCRIBE_DELEGATION_TOKEN: {},
    ApiKey.ALTER_REPLICA_LOG_DIRS: on_cluster("ALTER"),
    ApiKey.DESCRIBE_LOG_DIRS: on_cluster("DESCRIBE"),
    ApiKey.ELECT_LEADERS: on_cluster("ALTER"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: on_cluster("ALTER"),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: on_cluster("DESCRIBE"),
    ApiKey.DESCRIBE_QUORUM: on_cluster("DESCRIBE"),
    ApiKey.UPDATE_FEATURES: on_cluster("ALTER"),
    ApiKey.DESCRIBE_CLUSTER: on_cluster("ALTER"),
    ApiKey.UNREGISTER_BROKER: on_cluster("ALTER"),
    ApiKey.UNREGISTER_CONTROLLER: on_cluster("ALTER"),
    ApiKey.ADD_RAFT_VOTER: on_cluster("ALTER"),
    ApiKey.REMOVE_RAFT_VOTER: on_cluster("ALTER"),
    # between nodes
    ApiKey.FETCH: NODES,
    ApiKey.VOTE: NODES,
    ApiKey.BEGIN_QUORUM_EPOCH: NODES,
    ApiKey.END_QUORUM_EPOCH: NODES,
    ApiKey.ALTER_PARTITION: NODES,
    ApiKey.ENVELOPE: NODES,
    ApiKey.FETCH_SNAPSHOT: NODES,
    ApiKey.BROKER_REGISTRATION: NODES,
    ApiKey.BROKER_HEARTBEAT: NODES,
    ApiKey.ALLOCATE_PRODUCER_IDS: NODES,
    ApiKey.CONTROLLER_REGISTRATION: NODES,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: NODES,
    ApiKey.UPDATE_RAFT_VOTER: NODES,
    # our own, as their kin
    OwnApiKey.RESIGN_CONTROLLER: on_cluster("ALTER"),
    OwnApiKey.DESCRIBE_METADATA: on_cluster("DESCRIBE"),
    OwnApiKey.DESCRIBE_METRICS: on_cluster("DESCRIBE"),
    OwnApiKey.DESCRIBE_COMPACTION: on_cluster("DESCRIBE"),
    OwnApiKey.BALANCE_LEADERS: on_cluster("ALTER"),
    OwnApiKey.HAND_OVER_LEADER: NODES,
    OwnApiKey.CLAIM_STORAGE_GROUP: NODES,
    OwnApiKey.CREATE_STORAGE_GROUP: on_cluster("ALTER"),
    OwnApiKey.FORWARD_TO_COORDINATOR: NODES,
    OwnApiKey.COMMITTED_POSITIONS: NODES,
    OwnApiKey.DESCRIBE_HOLDERS: {"DESCRIBE TOPIC flights": "whole"}
    | {f"DESCRIBE GROUP {name}": "told" for name in GROUPS},
    OwnApiKey.DESCRIBE_GROUP_HISTORY: on_groups("DESCRIBE"),
    OwnApiKey.DESCRIBE_SHARE_PARTITIONS: {"DESCRIBE GROUP readers": "whole"} | on_topics("DESCRIBE"),
}

ON_BROKERS: dict[AnyApiKey, Effects] = {
    ApiKey.PRODUCE: {},
    ApiKey.FETCH: {},
    ApiKey.METADATA: {},
    ApiKey.OFFSET_FETCH: {},
    ApiKey.FIND_COORDINATOR: {},
    ApiKey.DESCRIBE_CLUSTER: {},
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {},
    ApiKey.ADD_PARTITIONS_TO_TXN: {},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {"ALTER_CONFIGS CLUSTER kafka-cluster": "item"},
}
"""Where brokers ask otherwise than controllers; of most of these the handler does: see `test_refused.py`."""

WITHIN = {
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.METADATA,
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.SHARE_GROUP_DESCRIBE,
    ApiKey.STREAMS_GROUP_DESCRIBE,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    OwnApiKey.DESCRIBE_GROUP_HISTORY,
}

WHOLE: Final = ("error_code",)
PARTITIONS: Final = ("topics.partitions.error_code",)
RESULTS: Final = ("results.error_code",)
RESPONSES: Final = ("responses.error_code",)
IN_GROUPS: Final = ("groups.error_code",)
OF_STATES: Final = ("results.partitions.error_code",)

REFUSED_AT: dict[AnyApiKey, tuple[str, ...]] = {
    ApiKey.LIST_OFFSETS: PARTITIONS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: PARTITIONS,
    ApiKey.DELETE_RECORDS: PARTITIONS,
    ApiKey.DESCRIBE_PRODUCERS: PARTITIONS,
    ApiKey.DESCRIBE_TRANSACTIONS: ("transaction_states.error_code",),
    ApiKey.LIST_TRANSACTIONS: (),
    ApiKey.WRITE_TXN_MARKERS: ("markers.topics.partitions.error_code",),
    ApiKey.OFFSET_COMMIT: PARTITIONS,
    ApiKey.TXN_OFFSET_COMMIT: PARTITIONS,
    ApiKey.DELETE_GROUPS: RESULTS,
    ApiKey.DESCRIBE_GROUPS: IN_GROUPS,
    ApiKey.CONSUMER_GROUP_DESCRIBE: IN_GROUPS,
    ApiKey.SHARE_GROUP_DESCRIBE: IN_GROUPS,
    ApiKey.STREAMS_GROUP_DESCRIBE: IN_GROUPS,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: IN_GROUPS,
    OwnApiKey.DESCRIBE_GROUP_HISTORY: IN_GROUPS,
    ApiKey.LIST_GROUPS: (),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: OF_STATES,
    ApiKey.READ_SHARE_GROUP_STATE: OF_STATES,
    ApiKey.WRITE_SHARE_GROUP_STATE: OF_STATES,
    ApiKey.DELETE_SHARE_GROUP_STATE: OF_STATES,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: OF_STATES,
    ApiKey.CREATE_TOPICS: ("topics.error_code",),
    ApiKey.DELETE_TOPICS: RESPONSES,
    ApiKey.CREATE_PARTITIONS: RESULTS,
    ApiKey.DESCRIBE_CONFIGS: RESULTS,
    ApiKey.ALTER_CONFIGS: RESPONSES,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: RESPONSES,
    ApiKey.CREATE_ACLS: RESULTS,
    ApiKey.DELETE_ACLS: ("filter_results.error_code",),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: RESULTS,
    ApiKey.ALTER_CLIENT_QUOTAS: ("entries.error_code",),
    ApiKey.ALTER_REPLICA_LOG_DIRS: ("results.partitions.error_code",),
    ApiKey.ELECT_LEADERS: (*WHOLE, "replica_election_results.partition_result.error_code"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (*WHOLE, "responses.partitions.error_code"),
}
"""Where a refusal stands, as far as a version has the field; `WHOLE` for all others."""

OF_TOPICS_AT: dict[AnyApiKey, tuple[str, ...]] = {
    OwnApiKey.DESCRIBE_SHARE_PARTITIONS: ("topics.error_code",),
    ApiKey.OFFSET_DELETE: PARTITIONS,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: ("responses.partitions.error_code",),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: RESPONSES,
}
"""Where the refusal of a topic stands, if that of a group stands elsewhere."""
