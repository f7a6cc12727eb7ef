"""`penstock metadata`: whether all nodes have made the same of the metadata log."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from penstock.cli.output import print_rows
from penstock.cli.session import Reach, command_config_option, json_option, reach_options, run_with_admin
from penstock.client.admin import Admin
from penstock.client.quorum_admin import MetadataState

ROUNDS: Final = 20
"""So often nodes are asked again that are not at the same offset: metadata may change all the time."""


@click.group(short_help="compare the nodes' metadata")
def command() -> None:
    """Look at the metadata that each node has."""


@command.command("checksum")
@reach_options
@command_config_option
@json_option
def checksum(
    bootstrap_server: str | None, bootstrap_controller: str | None, command_config: Path | None, as_json: bool
) -> None:
    """Show a hash of each node's metadata: nodes at the same offset must have the same.

    Asked are all brokers, or with --bootstrap-controller all controllers. The exit code is 1 if two nodes differ.
    """
    reach = Reach.of(bootstrap_server, bootstrap_controller)
    states = run_with_admin(reach, command_config, _states)
    print_rows(
        ["NODE", "OFFSET", "EPOCH", "CHECKSUM"],
        [(state.node_id, state.offset, state.epoch, state.checksum) for state in states],
        as_json=as_json,
        empty="no node to ask",
    )
    for offset, differing in _contradictions(states):
        raise click.ClickException(f"nodes {differing} differ at offset {offset}: one of them applied something else")


async def _states(admin: Admin) -> list[MetadataState]:
    """All nodes at the same offset, if that can be had."""
    nodes = sorted(admin.cluster.metadata.brokers)
    states: list[MetadataState] = []
    for number in range(ROUNDS):
        if number:
            await asyncio.sleep(admin.cluster.settings.backoff_ms(number - 1) / 1000)
        states = await asyncio.gather(*map(admin.quorum.metadata_of, nodes))
        if len({state.offset for state in states}) <= 1:
            break
    return states


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
