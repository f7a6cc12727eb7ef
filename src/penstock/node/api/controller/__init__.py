"""What the listeners of controllers serve: one file per API, named after it, and what the controller decides."""

from penstock.node.api.commands import CONTROLLERS, passed_by

PASSED_ON = passed_by(CONTROLLERS)

MODULES: tuple[str, ...] = (
    # in alphabetical order, one per line
    "add_raft_voter",
    "api_versions",
    "begin_quorum_epoch",
    "describe_cluster",
    "describe_configs",
    "describe_quorum",
    "end_quorum_epoch",
    "envelope",
    "fetch",
    "fetch_snapshot",
    "list_partition_reassignments",
    "remove_raft_voter",
    "resign_controller",
    "update_raft_voter",
    "vote",
)
