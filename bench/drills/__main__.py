"""`python -m bench.drills [DRILL …] [--rounds N]`: do them, print the table, write `bench/results/drills.json`."""

import argparse
import signal
from collections.abc import Callable

from rich.console import Console

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
from bench.measure import RESULTS, Measure, asked, table, write

DRILLS: dict[str, tuple[Callable[[Drill], None], int]] = {
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


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.drills")
    parser.add_argument("--rounds", type=int, help="rounds of each, instead of its own number")
    words = asked(parser, "drill", DRILLS)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console, measures = Console(), list[Measure]()
    for name in words.names:
        work, rounds = DRILLS[name]
        console.print(f"[bold]{name}[/]: {(work.__doc__ or '').strip()}")
        drill = Drill(words.rounds or rounds, lambda line: console.print(f"  {line}", highlight=False))
        work(drill)
        measures += drill.measures()
    console.print(table(measures, "Penstock: three nodes under kill -9, SIGSTOP and ten thousand topics"))
    write(RESULTS / "drills.json", measures, is_all=words.is_all)
    console.print("written to results/drills.json")


if __name__ == "__main__":
    main()
