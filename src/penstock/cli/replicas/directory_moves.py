"""Moves of replicas between the log directories of their nodes: how they begin, and how far they are."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

import click

from penstock.cli.replicas.partition_files import Replica
from penstock.cli.terminal.lines import say
from penstock.client.admin import Admin
from penstock.protocol.errors import ErrorCode

DEFAULT_TIMEOUT_MS: Final = 10_000
"""How long a replica may take to appear that is to move to another directory, as with Kafka's tool."""
RETRY_S: Final = 0.1


async def begin_moves(admin: Admin, targets: Mapping[Replica, str], timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
    """Replicas that are on their way to a node begin once they are there. Raises ClickException."""
    waiting = dict(targets)
    for _ in range(int(timeout_ms / 1000 / RETRY_S) + 1):
        outcomes = await admin.move_replicas(waiting)
        failed = [
            f"{_name(replica)}: {code.name}"
            for replica, code in sorted(outcomes.items())
            if code not in (ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE)
        ]
        if failed:
            raise click.ClickException("\n".join(["moving replica(s) to log directories failed:", *failed]))
        waiting = {replica: path for replica, path in waiting.items() if outcomes.get(replica) != ErrorCode.NONE}
        if not waiting:
            break
        await asyncio.sleep(RETRY_S)
    begun = [replica for replica in targets if replica not in waiting]
    if begun:
        say(f"Successfully started log directory move{'' if len(begun) == 1 else 's'} for: {_names(begun)}")
    if waiting:
        raise click.ClickException(f"no log directory move could be started in {timeout_ms} ms for: {_names(waiting)}")


async def cancel_moves(admin: Admin, targets: Mapping[Replica, str], timeout_ms: int) -> None:
    """Replicas on the move stay where they are. Raises ClickException."""
    present, coming = await _places(admin, targets)
    moving = {replica: present[replica] for replica in targets if replica in coming and replica in present}
    if moving:
        await begin_moves(admin, moving, timeout_ms)
    else:
        say("None of the specified partition moves are active.")


async def show_moves(admin: Admin, targets: Mapping[Replica, str]) -> bool:
    """Returns whether any replica is still on its way."""
    present, coming = await _places(admin, targets)
    for replica, path in sorted(targets.items()):
        partition, node_id = replica
        if present.get(replica) == path:
            say(f"Reassignment of replica {_name(replica)} completed successfully.")
        elif coming.get(replica) == path:
            say(f"Reassignment of replica {_name(replica)} is still in progress.")
        elif replica in coming:
            say(f"Partition {partition} on broker {node_id} is being moved to log dir {coming[replica]}.")
        elif replica in present:
            say(f"Partition {partition} on broker {node_id} is not being moved from log dir {present[replica]}.")
        else:
            say(f"Partition {partition} cannot be found in any live log directory on broker {node_id}.")
    return any(replica in coming for replica in targets)


async def _places(admin: Admin, targets: Mapping[Replica, str]) -> tuple[dict[Replica, str], dict[Replica, str]]:
    """Present directories of the replicas on the nodes of `targets`, and directories that some are on their way to."""
    present: dict[Replica, str] = {}
    coming: dict[Replica, str] = {}
    nodes = sorted({node_id for _, node_id in targets})
    for directory in await admin.describe_log_dirs(nodes) if nodes else ():
        for partition, size in directory.partitions.items():
            (coming if size.is_future else present)[partition, directory.node_id] = directory.path
    return present, coming


def _name(replica: Replica) -> str:
    return f"{replica[0]}-{replica[1]}"


def _names(replicas: Iterable[Replica]) -> str:
    return ",".join(map(_name, sorted(replicas)))
