"""What the listeners of brokers serve: one file per API, named after it, and what they hand on to the controller."""

from penstock.node.api.commands import BROKERS, passed_by
from penstock.node.api.configs import HANDLERS as OF_CONFIGS
from penstock.node.api.consumed import HANDLERS as OF_CONSUMED
from penstock.node.api.consumer_groups import HANDLERS as OF_CONSUMER_GROUPS
from penstock.node.api.storage_group_rows import HANDLERS
from penstock.node.api.telemetry import HANDLERS as OF_TELEMETRY
from penstock.node.api.transactions import HANDLERS as OF_TRANSACTIONS

PASSED_ON = {
    **passed_by(BROKERS),
    **HANDLERS,
    **OF_CONFIGS,
    **OF_TRANSACTIONS,
    **OF_CONSUMER_GROUPS,
    **OF_TELEMETRY,
    **OF_CONSUMED,
}

MODULES: tuple[str, ...] = (
    # in alphabetical order, one per line
    "alter_replica_log_dirs",
    "api_versions",
    "delete_groups",
    "delete_records",
    "describe_cluster",
    "describe_compaction",
    "describe_configs",
    "describe_groups",
    "describe_log_dirs",
    "describe_producers",
    "describe_topic_partitions",
    "fetch",
    "find_coordinator",
    "forward_to_coordinator",
    "heartbeat",
    "init_producer_id",
    "join_group",
    "leave_group",
    "list_config_resources",
    "list_groups",
    "list_offsets",
    "metadata",
    "offset_commit",
    "offset_delete",
    "offset_fetch",
    "offset_for_leader_epoch",
    "produce",
    "sync_group",
)
