"""Moves that a plan proposes: limited, shown, and written for `penstock balance execute --file`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from penstock.cli.replicas.partition_files import assignment_text
from penstock.cli.terminal.options import option
from penstock.cli.terminal.output import joined, print_table, show_bytes
from penstock.client.values import TopicPartition
from penstock.leadership.spread import Respect
from penstock.protocol.value import Value

PLAN_FILE: Final = option("Write it, as kafka-reassign-partitions.sh reads.", "--file", exists=False)

IN_WORDS: Final = {
    Respect.DISK: "disk",
    Respect.TRAFFIC: "traffic",
    Respect.READS: "read traffic",
    Respect.COUNT: "replicas",
}

Replicas = Mapping[TopicPartition, Sequence[int]]


class Limits(Value):
    most_moves: int = option("Plan no more.", min=1, default=50, show_default=True)
    tolerance: float = option(
        "So much above its part a broker, or a disk, may have, as a share of it.",
        min=0.0,
        default=0.1,
        show_default=True,
    )
    measure: float = option(
        "For how long to look at how logs grow, and at what is read.",
        min=0.1,
        default=10.0,
        show_default=True,
        metavar="SECONDS",
    )


def as_moves(before: Replicas, targets: Replicas) -> list[dict[str, object]]:
    return [
        {"topic": one.topic, "partition": one.partition, "replicas": before[one], "planned": nodes}
        for one, nodes in targets.items()
    ]


def print_moves(before: Replicas, targets: Replicas, sizes: Mapping[TopicPartition, int]) -> None:
    print_table(
        ["TOPIC", "PARTITION", "DISK", "REPLICAS", "PLANNED"],
        [
            (one.topic, one.partition, show_bytes(sizes[one]), joined(before[one]), joined(nodes))
            for one, nodes in targets.items()
        ],
        empty="nothing should move",
    )


def write_plan(path: Path | None, targets: Replicas) -> None:
    if path is None:
        return
    try:
        path.write_text(assignment_text(targets) + "\n", encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"the plan could not be written to {path}: {error.strerror}") from None
