"""`penstock security init`: all files of a secured cluster, made at once."""

from pathlib import Path
from typing import Final

import click

from penstock.cli.security import folders
from penstock.cli.security.folders import DIRECTORY, told
from penstock.cli.terminal.failures import wrong_usage
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import declared, option
from penstock.testing.secured.folder import NODE_FILE
from penstock.testing.secured.places import parse_places
from penstock.testing.secured.settings import JAVA_FILE, principal_name
from penstock.testing.secured.users import ADMIN, APP, check_names
from penstock.testing.secured_cluster import make_secured

MANY: Final = 9
"""More controllers than that slow a quorum down."""


@click.command("init")
@declared
def command(
    nodes: str = option(
        "The hosts: a,b,c. A host may have its port (a:9092) and other names or addresses (a/10.0.0.1:9092).",
        required=True,
        metavar="HOST,...",
    ),
    user: tuple[str, ...] = option(
        "A user that reads and writes all topics; several times for several.", metavar="NAME"
    ),
    directory: Path = DIRECTORY,
    installed_in: Path | None = option(
        "Where each host will have its node's folder. [default: where it is made]",
        exists=False,
        metavar="DIR",
    ),
    only_keys: bool = option("The cluster is there already: format nothing (docs/migration.md)."),
) -> None:
    """Make an authority, nodes' certificates, users, and the files of all nodes and clients; format the storage.

    Clients come over TLS and log in with a password (SCRAM). Nodes know each other by their certificates. The user
    admin may do everything; without --user there is also the user app. Passwords are drawn, and stand in the clients'
    files only. Nothing that is there already is replaced.

    With --only-keys the files are for a cluster that runs: of server.properties take what it lacks.
    """
    users = user or (APP,)
    with wrong_usage(ValueError, of="--nodes"):
        places = parse_places(nodes)
    with wrong_usage(ValueError, of="--user"):
        check_names(users)
    if len(places) > MANY:
        raise click.UsageError(f"--nodes: {len(places)} nodes, and {MANY} controllers are the most that are made here")
    if installed_in is not None and not installed_in.is_absolute():
        raise click.UsageError(f"--installed-in {installed_in}: it begins with /")
    path = directory.absolute()
    with told():
        cluster_id = make_secured(
            path, places, users, now=folders.now(), installed_in=installed_in, only_keys=only_keys
        )
    if only_keys:
        say(f"Keys of {len(places)} nodes and their clients, in {path}")
    else:
        say(f"A secured cluster of {len(places)} nodes, {cluster_id}, in {path}")
    for place in places:
        name = principal_name(place.node_id)
        where = f" to {place.host}" + (f" as {installed_in}" if installed_in else "")
        start = "" if only_keys else f"; penstock start {NODE_FILE}"
        say(f"  {name:<12} take {path / 'nodes' / name}{where}{start}")
    for name in dict.fromkeys((ADMIN, *users)):
        say(f"  {name:<12} {path / 'clients' / name / JAVA_FILE}")
    say(f"  authority    {path / 'authority'}: who has its key is every node; keep it away from them")
