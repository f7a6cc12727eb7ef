"""The command `penstock`. A subcommand's module is imported when it is asked for, so that none pays for another.

A subcommand is the click command named `command` in its module; `COMMANDS` has them all.
"""

import importlib
from typing import Any, Final

import click

from penstock import __version__

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "acls": ("acls.acls", "show, make, explain and plan access rules (ACLs)"),
    "balance": ("replicas.balance", "spread replicas over the brokers by disk and traffic"),
    "broker-api-versions": ("cluster.api_versions", "show which APIs each broker serves in which versions"),
    "client-metrics": ("cluster.client_metrics", "show and change which metrics clients push"),
    "cluster": ("cluster.cluster", "describe the cluster: its id, brokers and quorum"),
    "completion": ("completion", "print what a shell needs to complete commands"),
    "configs": ("cluster.configs", "show and change configs of topics, brokers and groups"),
    "connect": ("work.connect", "list, create, watch and change connectors"),
    "console": ("nodes.console", "show the cluster in a browser"),
    "consume": ("records.consume", "print the records of a topic"),
    "consumer-perf-test": ("measuring.consumer_perf_test", "read records and measure how fast that goes"),
    "controller": ("cluster.controller", "show the active controller, or make another one active"),
    "delayed": ("records.delayed", "show, cancel and hasten records that wait until they are due"),
    "delete-records": ("records.delete_records", "delete the first records of partitions"),
    "demo": ("work.demo", "show how something works, by a small program"),
    "dump-log": ("dump.dump_log", "print what is in a segment file"),
    "e2e-latency": ("measuring.e2e_latency", "measure how long a record takes from its producer to its consumer"),
    "features": ("cluster.features", "show and change the levels of features"),
    "files": ("files", "list and copy what comes along: dashboards, alerts, manifests, these pages"),
    "groups": ("groups.groups", "list, describe, reset and delete consumer and share groups"),
    "leader-election": ("replicas.leader_election", "elect leaders of partitions"),
    "leaders": ("replicas.leaders", "plan, compare and balance who leads which partition"),
    "log-dirs": ("replicas.log_dirs", "show the sizes of partitions in the data directories"),
    "metadata": ("cluster.metadata", "compare the nodes' metadata"),
    "metadata-quorum": ("cluster.metadata_quorum", "describe and change the quorum of controllers"),
    "metadata-shell": ("metadata_shell.metadata_shell", "look into the cluster's metadata as into a tree of files"),
    "offsets": ("records.offsets", "show the offsets of partitions"),
    "pipeline": ("work.pipeline", "run pipelines on Spark, here or as jobs on workers"),
    "produce": ("records.produce", "send lines of the standard input to a topic"),
    "producer-perf-test": ("measuring.producer_perf_test", "send records and measure how fast that goes"),
    "reassign-partitions": ("replicas.reassign_partitions", "move replicas of partitions to other brokers"),
    "replica-verification": ("replicas.replica_verification", "compare what the replicas of topics hold"),
    "schemas": ("records.schemas", "show the schemas of a registry, and register new versions"),
    "security": ("security.security", "secure a new cluster, renew its certificates, find why a client is refused"),
    "share-consumer-perf-test": (
        "measuring.share_consumer_perf_test",
        "read records as members of a share group and measure how fast that goes",
    ),
    "simulate": ("nodes.simulate", "run nodes on virtual time, with faults, from a seed"),
    "start": ("start", "start a node, or a local cluster"),
    "storage": ("nodes.storage", "format log directories, and show what they belong to"),
    "storage-groups": ("replicas.storage_groups", "show, create and recover storage groups"),
    "streams-application-reset": ("groups.streams_reset", "let an application of Kafka Streams begin anew"),
    "topics": ("records.topics", "list, describe, create, change and delete topics"),
    "transactions": ("cluster.transactions", "list, describe and abort transactions, and find those that hang"),
    "delegation-tokens": ("cluster.delegation_tokens", "make, renew, expire and show tokens to log in with"),
    "users": ("cluster.users", "show, make and remove users that log in with a password (SCRAM)"),
    "verifiable-consumer": (
        "measuring.verifiable_consumer",
        "read as a member of a group, and tell as JSON all that happens",
    ),
    "verifiable-producer": ("measuring.verifiable_producer", "send numbers, and tell as JSON which were acknowledged"),
    "verifiable-share-consumer": (
        "measuring.verifiable_share_consumer",
        "read as a member of a share group, and tell as JSON all that happens",
    ),
    "worker": ("work.worker", "run connectors"),
}
"""The module of each subcommand below `penstock.cli`, and its line in the help."""


class LazyGroup(click.Group):
    """Subcommands are imported at their first use; the help needs no import at all."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"penstock.cli.{COMMANDS[cmd_name][0]}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """What a command complains of may quote the cluster, or be a package that is not installed."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            from penstock.cli.terminal.lines import one_message

            vars(error)["message"] = one_message(error.message)  # click declares it final
            raise
        except ModuleNotFoundError as error:
            from penstock.cli.terminal.extras import cure

            if (said := cure(error)) is None:
                raise
            raise click.ClickException(said) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


def _tell_version(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked:
        from penstock.cli.terminal.lines import say
        from penstock.cli.terminal.shipped import commit

        made_of = commit()
        say(f"penstock {__version__}" + (f" (commit {made_of})" if made_of else ""))
        context.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_tell_version,
    help="Show the version, and the commit that it was made of, and exit.",
)
def main() -> None:
    """A distributed log and message queue that speaks the Kafka protocol."""
