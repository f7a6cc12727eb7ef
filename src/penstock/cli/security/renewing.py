"""`penstock security renew`: new certificates for nodes, by the authority that they have."""

from pathlib import Path

import click

from penstock.cli.security.folders import DIRECTORY, RELOADED, found, told
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import declared, option
from penstock.testing.secured.authorities import NODE_DAYS
from penstock.testing.secured.settings import KEY_FILE, principal_name


@click.command("renew")
@declared
def command(
    directory: Path = DIRECTORY,
    node: tuple[int, ...] = option("Only this node, by its id; several times for several.", metavar="ID"),
    days: int = option("How long they hold.", default=NODE_DAYS, show_default=True, min=1, max=3650),
) -> None:
    """Give nodes new keys and certificates for the names that they have.

    A new file is put into each node's folder; where the node has its files elsewhere, take it there.
    """
    folder = found(directory)
    chosen = folder.nodes
    if node:
        wanted = {principal_name(one) for one in node}
        missing = sorted(wanted - {one.name for one in chosen})
        if missing:
            raise click.UsageError(f"--node: {', '.join(missing)} is not in {folder.path / 'nodes'}")
        chosen = [one for one in chosen if one.name in wanted]
    for one in chosen:
        with told():
            folder.sign_again(one, days)
            seen = folder.authorities.shown(folder.certificate_of(one))
        say(f"{one.name}: {one / KEY_FILE} holds until {seen.ends:%Y-%m-%d} for {', '.join(seen.hosts)}")
    say(RELOADED)
