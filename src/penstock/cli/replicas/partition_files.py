"""Files that name partitions, in the forms of Kafka's tools: which to elect leaders of, and where replicas shall be."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from penstock.cli.terminal.failures import in_words
from penstock.client.values import TopicPartition

ANY_DIRECTORY = "any"
Replica = tuple[TopicPartition, int]
"""A partition, and the node that has it."""


def partitions_in(path: Path) -> list[TopicPartition]:
    """Reads {"partitions": [{"topic": "t", "partition": 0}]}. Raises click.ClickException."""
    return list(_rows(path))


def replicas_in(path: Path, *, may_be_empty: bool = False) -> dict[TopicPartition, list[int]]:
    """Reads {"version": 1, "partitions": [{…, "replicas": [1, 2]}]}. Raises click.ClickException."""
    targets: dict[TopicPartition, list[int]] = {}
    for partition, row in _rows(path, may_be_empty=may_be_empty).items():
        replicas = row.get("replicas")
        if not isinstance(replicas, list) or not replicas or not all(_is_number(node) for node in replicas):
            raise _wrong(path, f"the replicas of {partition} are not a list of node ids")
        if len(set(replicas)) != len(replicas):
            raise _wrong(path, f"the replicas of {partition} have a node twice")
        targets[partition] = replicas
    return targets


def directories_in(path: Path) -> dict[Replica, str]:
    """Reads {…, "replicas": [1, 2], "log_dirs": ["any", "/a"]}, where one is named."""
    found: dict[Replica, str] = {}
    for partition, row in _rows(path).items():
        directories = row.get("log_dirs", [])
        if not isinstance(directories, list) or not all(isinstance(directory, str) for directory in directories):
            raise _wrong(path, f"log_dirs of {partition}: a list of paths is needed")
        if directories and len(directories) != len(row["replicas"]):
            raise _wrong(
                path, f"log_dirs of {partition}: one is needed for each replica, {ANY_DIRECTORY!r} if no matter"
            )
        for node_id, directory in zip(row["replicas"], directories, strict=False):
            if directory != ANY_DIRECTORY:
                found[partition, node_id] = directory
    return found


def assignment_text(replicas: Mapping[TopicPartition, Sequence[int]]) -> str:
    """What `replicas_in` reads, on one line, as kafka-reassign-partitions.sh prints it."""
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(nodes),
            "log_dirs": [ANY_DIRECTORY] * len(nodes),
        }
        for partition, nodes in sorted(replicas.items())
    ]
    return json.dumps({"version": 1, "partitions": rows}, separators=(",", ":"))


def _rows(path: Path, *, may_be_empty: bool = False) -> dict[TopicPartition, dict[str, Any]]:
    with in_words(OSError, ValueError, before=f"{path}: "):
        document = json.loads(path.read_text(encoding="utf-8"))
    rows = document.get("partitions") if isinstance(document, dict) else None
    if not isinstance(rows, list) or not (rows or may_be_empty):
        raise _wrong(path, 'there are no "partitions"')
    if document.get("version", 1) != 1:
        raise _wrong(path, f"version {document['version']} is not known, only 1 is")
    found: dict[TopicPartition, dict[str, Any]] = {}
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get("topic"), str) or not _is_number(row.get("partition")):
            raise _wrong(path, f"{row}: a topic and the number of a partition are needed")
        partition = TopicPartition(row["topic"], row["partition"])
        if partition in found:
            raise _wrong(path, f"{partition} comes twice")
        found[partition] = row
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _wrong(path: Path, text: str) -> click.ClickException:
    return click.ClickException(f"{path}: {text}")
