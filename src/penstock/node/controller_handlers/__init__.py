"""What the controller listeners serve: one file per API, as in `penstock.node.handlers`; `MODULES` lists them all."""

MODULES: tuple[str, ...] = (
    # in alphabetical order, one per line
    "add_raft_voter",
    "allocate_producer_ids",
    "alter_configs",
    "api_versions",
    "begin_quorum_epoch",
    "broker_heartbeat",
    "broker_registration",
    "controller_registration",
    "create_partitions",
    "create_topics",
    "delete_topics",
    "describe_cluster",
    "describe_quorum",
    "end_quorum_epoch",
    "envelope",
    "fetch",
    "fetch_snapshot",
    "incremental_alter_configs",
    "remove_raft_voter",
    "unregister_broker",
    "update_raft_voter",
    "vote",
)
