"""`penstock controller`: which controller is active, and how to make another one so."""

from __future__ import annotations

import click

from penstock.cli.terminal.options import JSON, declared, option
from penstock.cli.terminal.output import print_lines
from penstock.cli.terminal.session import QUORUM_PATIENCE_MS, NodeSession
from penstock.client.admin import Admin
from penstock.client.admin.quorum import NO_SUCCESSOR, QuorumInfo


@click.command(short_help="show the active controller, or make another one active")
@declared
def command(
    session: NodeSession,
    resign: bool = option("Let the active controller go: the voters elect another one."),
    transfer: bool = option("The same, and let the controller --to stand first."),
    successor_id: int | None = option("With --transfer: who shall lead.", "--to", min=0, metavar="ID"),
    as_json: bool = JSON,
) -> None:
    """Show which controller is active; with --resign or --transfer make another one so.

    A transfer is a wish: the voters elect whose log is good enough. If another one wins, the exit code is 1. A cluster
    with a single voter elects the same one again, in a new epoch.
    """
    if resign and transfer:
        raise click.UsageError("give one of --resign and --transfer")
    if transfer != (successor_id is not None):
        raise click.UsageError("--transfer and --to ID go together")

    async def work(admin: Admin) -> tuple[QuorumInfo, QuorumInfo]:
        if resign or transfer:
            return await hand_over(admin, successor_id)
        info = await admin.quorum.describe()
        return info, info

    before, after = session.run(work, patience_ms=QUORUM_PATIENCE_MS)
    _print(before, after, as_json=as_json)
    check_successor(after, successor_id)


async def hand_over(admin: Admin, successor_id: int | None) -> tuple[QuorumInfo, QuorumInfo]:
    """Returns the quorum before and after. Raises click.ClickException for a successor that has no vote."""
    before = await admin.quorum.describe()
    voters = sorted(voter.node_id for voter in before.voters)
    if successor_id is not None and successor_id not in voters:
        raise click.ClickException(
            f"controller {successor_id} cannot take over: the voters are {', '.join(map(str, voters))}"
        )
    if successor_id == before.leader_id:
        return before, before
    return before, await admin.quorum.resign(before, NO_SUCCESSOR if successor_id is None else successor_id)


def check_successor(after: QuorumInfo, successor_id: int | None) -> None:
    """Raises click.ClickException if the voters elected another one."""
    if successor_id is not None and after.leader_id != successor_id:
        raise click.ClickException(
            f"the voters elected {after.leader_id}, not {successor_id}: see with `penstock metadata-quorum describe "
            "--replication` whether it fetches and how far it lags, then try again"
        )


def _print(before: QuorumInfo, after: QuorumInfo, *, as_json: bool) -> None:
    document: dict[str, object] = {"controller_id": after.leader_id, "epoch": after.leader_epoch}
    lines = [f"controller {after.leader_id} is active in epoch {after.leader_epoch}"]
    if after is not before:
        document["before"] = {"controller_id": before.leader_id, "epoch": before.leader_epoch}
        lines.insert(0, f"controller {before.leader_id} resigned from epoch {before.leader_epoch}")
    print_lines(lines, document, as_json=as_json)
