"""`penstock cluster health`: what is wrong with a cluster, or with one node, as people and probes ask it."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

import click

from penstock.cli.cluster.metadata import nodes_of
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import JSON, declared, option
from penstock.cli.terminal.output import print_json
from penstock.cli.terminal.session import QUORUM_PATIENCE_MS, NodeSession
from penstock.client.admin import Admin
from penstock.client.admin.configs import ResourceType
from penstock.client.admin.partitions import Reassignment
from penstock.client.controllers import ControllerClient
from penstock.client.errors import ClientError
from penstock.client.metadata import PartitionMetadata
from penstock.client.values import TopicPartition

HEARS_LEADER: Final = "raft-metrics", "hears-leader"
MIN_ISR: Final = "min.insync.replicas"
CONTROLLER_S: Final = 3
SHOWN: Final = 20
"""So many nodes or partitions are named for people; programs get all."""

Problems = Mapping[str, list[str]]
"""What is wrong, and where. What is in order is not there."""


@click.command("health")
@declared
def health(
    session: NodeSession,
    node_id: int | None = option(
        "Only whether this node answers and hears an active controller.", "--node", metavar="ID"
    ),
    as_json: bool = JSON,
) -> None:
    """Show what is wrong: nodes and partitions. The exit code is 1 if anything is, or nobody answers.

    Asked are all brokers, or with --bootstrap-controller all controllers, and those say nothing of partitions.
    """
    found = session.run(lambda admin: problems_of(admin, node_id), patience_ms=QUORUM_PATIENCE_MS)
    if as_json:
        print_json({"is_well": not found, "problems": found})
    else:
        say(*_lines(found))
    if found:
        raise click.exceptions.Exit(1)


async def problems_of(admin: Admin, only: int | None = None) -> Problems:
    nodes = await nodes_of(admin)
    if only is not None and only not in nodes:
        return {"not in service": [str(only)]}
    chosen = nodes if only is None else [only]
    answers = await asyncio.gather(*(_hears_leader(admin, node) for node in chosen))
    found = {
        "does not answer": [str(node) for node, hears in zip(chosen, answers, strict=True) if hears is None],
        "hears no active controller": [
            str(node) for node, hears in zip(chosen, answers, strict=True) if hears is False
        ],
    }
    if only is None and not isinstance(admin.cluster, ControllerClient):
        brokers = (await admin.describe_cluster(include_fenced=True)).brokers
        found["fenced"] = [str(broker.node_id) for broker in brokers if broker.is_fenced]
        found |= await _of_partitions(admin, has_controller=any(answers))
    return {what: where for what, where in found.items() if where}


async def _hears_leader(admin: Admin, node_id: int) -> bool | None:
    """None if it does not answer. A node of another release, which does not tell, is believed to be well."""
    try:
        metrics = await admin.quorum.metrics_of(node_id)
    except ClientError:
        return None
    return all(metric.value != "0" for metric in metrics if (metric.group, metric.name) == HEARS_LEADER)


async def _of_partitions(admin: Admin, *, has_controller: bool) -> Problems:
    """A replica that is still to come is not missed; without an active controller nobody knows which those are."""
    topics = await admin.topics.describe()
    brokers = admin.cluster.metadata.brokers
    rows = [row for topic in topics for row in topic.partitions.values()]
    lacking = [row for row in rows if row.leader in brokers and len(row.isr) < len(row.replicas)]
    names = sorted({row.topic for row in lacking})
    least = dict(zip(names, await asyncio.gather(*(_min_isr(admin, name) for name in names)), strict=True))
    moving: dict[TopicPartition, Reassignment] = {}
    if lacking and has_controller:
        with suppress(TimeoutError):  # it may have gone a moment ago, and this waits for the next one
            async with asyncio.timeout(CONTROLLER_S):
                moving = await admin.partitions.reassignments()
    coming = {partition: len(move.adding) for partition, move in moving.items()}
    return {
        "offline": _named(row for row in rows if row.leader not in brokers),
        "under-replicated": _named(
            row for row in lacking if len(row.isr) < len(row.replicas) - coming.get(row.topic_partition, 0)
        ),
        f"under {MIN_ISR}": _named(row for row in lacking if len(row.isr) < least[row.topic]),
    }


async def _min_isr(admin: Admin, topic: str) -> int:
    (entry,) = await admin.configs.describe(ResourceType.TOPIC, topic, keys=[MIN_ISR])
    return int(entry.value or 1)


def _named(rows: Iterable[PartitionMetadata]) -> list[str]:
    return [str(row.topic_partition) for row in rows]


def _lines(found: Problems) -> list[str]:
    return [f"{what} ({len(where)}): {_shown(where)}" for what, where in found.items()] or ["all is well"]


def _shown(where: list[str]) -> str:
    more = len(where) - SHOWN
    return ", ".join(where[:SHOWN]) + (f" and {more} more" if more > 0 else "")
