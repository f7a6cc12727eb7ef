"""`penstock metadata`: whether all nodes have made the same of the metadata log, and what they say of themselves."""

import asyncio
from collections.abc import Sequence
from typing import Final

import click

from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import JSON, declared, option
from penstock.cli.terminal.output import print_rows
from penstock.cli.terminal.session import NodeSession
from penstock.client.admin import Admin
from penstock.client.admin.quorum import MetadataState
from penstock.client.controllers import ControllerClient
from penstock.client.errors import ClientError
from penstock.protocol.requests.own_apis import Metric

ROUNDS: Final = 20
"""How often nodes are asked again that are not at the same offset: metadata may change all the time."""


@click.group(short_help="compare the nodes' metadata; their metrics")
def command() -> None:
    """Look at the metadata that each node has."""


@command.command("checksum")
@declared
def checksum(session: NodeSession, as_json: bool = JSON) -> None:
    """Show a hash of each node's metadata: nodes at the same offset must have the same.

    Asked are all brokers in service, or with --bootstrap-controller all controllers of the quorum. The exit code is 1
    if two nodes differ.
    """
    states, failures = session.run(_states)
    print_rows(
        ["NODE", "OFFSET", "EPOCH", "CHECKSUM"],
        [(state.node_id, state.offset, state.epoch, state.checksum) for state in states],
        as_json=as_json,
        empty="no node answers",
    )
    for node_id, failure in failures.items():
        say(f"node {node_id} does not answer: {failure}", err=True)
    for offset, differing in _contradictions(states):
        raise click.ClickException(f"nodes {differing} differ at offset {offset}: one of them applied something else")


@command.command("metrics")
@declared
def metrics(
    session: NodeSession, as_json: bool = JSON, node_id: int | None = option("Only this node.", "--node")
) -> None:
    """Show what each node says of itself in numbers: its part in the quorum, and the queue of its controller.

    The names are those of Kafka's metrics. Asked are all brokers in service, or with --bootstrap-controller all
    controllers of the quorum.
    """
    found, failures = session.run(lambda admin: _metrics(admin, node_id))
    print_rows(
        ["NODE", "GROUP", "METRIC", "VALUE"],
        [(node, metric.group, metric.name, metric.value) for node, metric in found],
        as_json=as_json,
        empty="no node answers",
    )
    for node, failure in failures.items():
        say(f"node {node} does not answer: {failure}", err=True)


async def nodes_of(admin: Admin) -> list[int]:
    """Leaves out a controller that has left the quorum for good: it stays registered."""
    nodes = sorted(admin.cluster.metadata.brokers)
    if not isinstance(admin.cluster, ControllerClient) or admin.cluster.metadata.controller_id not in nodes:
        return nodes
    quorum = await admin.quorum.describe()
    taking_part = {replica.node_id for replica in (*quorum.voters, *quorum.observers)}
    return [node_id for node_id in nodes if node_id in taking_part]


async def _metrics(admin: Admin, only: int | None) -> tuple[list[tuple[int, Metric]], dict[int, ClientError]]:
    nodes = await nodes_of(admin)
    if only is not None and only not in nodes:
        raise click.ClickException(f"there is no node {only}: there are {', '.join(map(str, nodes))}")
    found: list[tuple[int, Metric]] = []
    failures: dict[int, ClientError] = {}
    for node in nodes if only is None else [only]:
        try:
            found += [(node, metric) for metric in await admin.quorum.metrics_of(node)]
        except ClientError as error:
            failures[node] = error
    return found, failures


async def _states(admin: Admin) -> tuple[list[MetadataState], dict[int, Exception]]:
    """All at the same offset, if that can be had; and the errors of nodes that do not answer."""
    nodes = await nodes_of(admin)
    states: list[MetadataState] = []
    failures: dict[int, Exception] = {}
    for number in range(ROUNDS):
        if number:
            await asyncio.sleep(admin.cluster.settings.backoff_ms(number - 1) / 1000)
        asked = [node_id for node_id in nodes if node_id not in failures]
        answers = await asyncio.gather(*map(admin.quorum.metadata_of, asked), return_exceptions=True)
        states = [answer for answer in answers if isinstance(answer, MetadataState)]
        for node_id, answer in zip(asked, answers, strict=True):
            if isinstance(answer, ClientError):
                failures[node_id] = answer
            elif isinstance(answer, BaseException):
                raise answer
        if len({state.offset for state in states}) <= 1:
            break
    return states, failures


def _contradictions(states: Sequence[MetadataState]) -> list[tuple[int, str]]:
    """Offsets at which nodes have different checksums, each with the nodes."""
    at: dict[int, list[MetadataState]] = {}
    for state in states:
        at.setdefault(state.offset, []).append(state)
    return [
        (offset, ", ".join(str(state.node_id) for state in same))
        for offset, same in sorted(at.items())
        if len({state.checksum for state in same}) > 1
    ]
