"""The drills: each is a function that does so many rounds, tells of each, and adds what it measured."""

from collections.abc import Callable
from typing import Final

from bench.drills.controllers import all_at_once, full_node, killed_controller, many_topics, paused_controller
from bench.drills.leaders import balanced_again, killed_in_hand_overs
from bench.drills.replication import (
    killed_groups,
    killed_nodes,
    lost_data,
    moved_partitions,
    paused_group_leader,
    paused_leader,
    rolling_restart,
)
from bench.drills.traffic import Drill
from bench.drills.workers import spark_cluster_killed, workers_with_tasks

DRILLS: Final[dict[str, tuple[Callable[[Drill], None], int]]] = {
    "killed-controller": (killed_controller, 20),
    "all-at-once": (all_at_once, 5),
    "many-topics": (many_topics, 5),
    "paused-controller": (paused_controller, 3),
    "full-node": (full_node, 1),
    "killed-nodes": (killed_nodes, 100),
    "rolling-restart": (rolling_restart, 10),
    "paused-leader": (paused_leader, 3),
    "lost-data": (lost_data, 1),
    "moved-partitions": (moved_partitions, 3),
    "balanced-again": (balanced_again, 10),
    "hand-overs": (killed_in_hand_overs, 5),
    "storage-groups": (killed_groups, 10),
    "storage-group-paused": (paused_group_leader, 3),
    "workers": (workers_with_tasks, 3),
    "spark-cluster": (spark_cluster_killed, 3),
}
"""Each with its rounds, unless the command line says otherwise."""
