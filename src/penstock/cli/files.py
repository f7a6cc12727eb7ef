"""`penstock files`: what comes along with the package for other programs."""

import shutil
from pathlib import Path

import click

from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import ANY_PATH, argument, declared, option
from penstock.cli.terminal.shipped import folders


@click.command(short_help="list and copy what comes along")
@declared
def command(
    names: tuple[str, ...] = argument(nargs=-1, metavar="[FOLDER]..."),
    copy: Path | None = option("Copy the folders into this directory.", type=ANY_PATH),
) -> None:
    """List the files that come along, or those in FOLDER: dashboards and alert rules for Grafana and Prometheus
    (dashboards), files to run nodes by containers, Kubernetes or systemd (deploy), the documentation (site).

    With --copy they are copied, into a folder of that name each; files that are there already are written over.
    """
    there = folders()
    for name in names:
        if name not in there:
            raise click.ClickException(f"there is no folder {name}; there are: {', '.join(there) or 'none'}")
    for name in names or there:
        if copy is None:
            say(*sorted(str(path) for path in there[name].rglob("*") if path.is_file()))
        else:
            shutil.copytree(there[name], copy / name, dirs_exist_ok=True)
            say(f"copied {name} to {copy / name}")
