"""One file per API, named after it. `MODULES` lists them all; what is not listed is not served."""

MODULES: tuple[str, ...] = (
    # in alphabetical order, one per line
    "alter_configs",
    "api_versions",
    "delete_groups",
    "delete_records",
    "describe_configs",
    "describe_groups",
    "describe_log_dirs",
    "describe_producers",
    "fetch",
    "find_coordinator",
    "heartbeat",
    "incremental_alter_configs",
    "join_group",
    "leave_group",
    "list_config_resources",
    "list_groups",
    "list_offsets",
    "offset_commit",
    "offset_delete",
    "offset_fetch",
    "offset_for_leader_epoch",
    "produce",
    "sync_group",
)
