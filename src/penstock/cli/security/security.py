"""`penstock security`: the group; each command has a module."""

import click

from penstock.cli.security import doctor, init, renewing, rotating, status


@click.group(short_help="secure a new cluster, renew its certificates, find out why a client is refused")
def command() -> None:
    """Make the files of a secured cluster, renew its certificates, and find out why a client is refused."""


for one in (init.command, renewing.command, rotating.command, status.command, doctor.command):
    command.add_command(one)
