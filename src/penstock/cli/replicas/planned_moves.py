"""Moves that a plan proposes: shown, and written for `penstock balance execute --file`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from penstock.cli.replicas.partition_files import assignment_text
from penstock.cli.terminal.options import option
from penstock.cli.terminal.output import joined, print_table, show_bytes
from penstock.client.values import TopicPartition

PLAN_FILE: Final = option("Write it, as kafka-reassign-partitions.sh reads.", "--file", exists=False)

Replicas = Mapping[TopicPartition, Sequence[int]]


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
