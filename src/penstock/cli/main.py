"""The command `penstock`. A subcommand's module is imported when it is asked for, so that none pays for another.

The subcommand `log-dirs` is the click command named `command` in `penstock.cli.log_dirs`; `COMMANDS` names them all.
"""

import importlib

import click

from penstock import __version__

COMMANDS: dict[str, str] = {
    "balance": "spread replicas over the brokers by disk and traffic",
    "cluster": "describe the cluster: its id, brokers and quorum",
    "completion": "print what a shell needs to complete commands",
    "configs": "show and change configs of topics, brokers and groups",
    "connect": "list, create, watch and change connectors",
    "consume": "print the records of a topic",
    "controller": "show the active controller, or make another one active",
    "demo": "show how something works, by a small program",
    "dump-log": "print what is in a segment file",
    "features": "show and change the levels of features",
    "groups": "list, describe, reset and delete consumer groups",
    "leader-election": "elect leaders of partitions",
    "leaders": "plan, compare and balance who leads which partition",
    "log-dirs": "show the sizes of partitions in the data directories",
    "metadata": "compare the nodes' metadata",
    "metadata-quorum": "describe and change the quorum of controllers",
    "metadata-shell": "look into the cluster's metadata as into a tree of files",
    "offsets": "show the offsets of partitions",
    "pipeline": "run pipelines on Spark, here or as jobs on workers",
    "produce": "send lines of the standard input to a topic",
    "reassign-partitions": "move replicas of partitions to other brokers",
    "replica-verification": "compare what the replicas of topics hold",
    "simulate": "run nodes on virtual time, with faults, from a seed",
    "start": "start a node, or a local cluster",
    "storage": "format log directories, and show what they belong to",
    "storage-groups": "show and create storage groups",
    "topics": "list, describe, create, change and delete topics",
    "worker": "run connectors",
}
"""Each subcommand with its line in the help."""


class LazyGroup(click.Group):
    """A group whose subcommands are imported at their first use; its help needs no import at all."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the subcommands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a subcommand."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"penstock.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of subcommands from the table."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, message="penstock %(version)s")
def main() -> None:
    """A distributed log and message queue that speaks the Kafka protocol."""
