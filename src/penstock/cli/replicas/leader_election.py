"""`penstock leader-election`: elect leaders of partitions, with the options of kafka-leader-election.sh."""

from pathlib import Path
from typing import Final

import click

from penstock.cli.common.output import print_json
from penstock.cli.common.session import Reach, command_config_option, json_option, reach_options, run_with_admin
from penstock.cli.replicas.partition_files import partitions_in
from penstock.client.admin.partitions import ElectionType, Outcome
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode

KINDS: Final = {kind.name.lower(): kind for kind in ElectionType}


@click.command(short_help="elect leaders of partitions")
@reach_options
@command_config_option
@click.option("--election-type", type=click.Choice(list(KINDS)), required=True, help="Who may be elected.")
@click.option("--topic", help="One topic, with --partition.")
@click.option("--partition", type=click.IntRange(min=0), help="One partition of --topic.")
@click.option("--all-topic-partitions", is_flag=True, help="All partitions of all topics.")
@click.option(
    "--path-to-json-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='A file with {"partitions": [{"topic": "t", "partition": 0}]}.',
)
@json_option
def command(
    bootstrap_server: str | None,
    bootstrap_controller: str | None,
    command_config: Path | None,
    election_type: str,
    topic: str | None,
    partition: int | None,
    all_topic_partitions: bool,
    path_to_json_file: Path | None,
    as_json: bool,
) -> None:
    """Elect leaders of partitions.

    A preferred election makes the first replica the leader again if it is in sync. An unclean one takes any replica
    that lives where none in sync does: what only the others had is lost.
    """
    if sum((topic is not None, all_topic_partitions, path_to_json_file is not None)) != 1:
        raise click.UsageError("give one of --topic, --all-topic-partitions and --path-to-json-file")
    if (topic is None) != (partition is None):
        raise click.UsageError("--topic and --partition go together")
    asked: list[TopicPartition] | None = None
    if path_to_json_file is not None:
        asked = partitions_in(path_to_json_file)
    elif topic is not None and partition is not None:
        asked = [TopicPartition(topic, partition)]
    kind = KINDS[election_type]
    outcomes = run_with_admin(
        Reach.of(bootstrap_server, bootstrap_controller),
        command_config,
        lambda admin: admin.partitions.elect_leaders(kind, asked),
    )
    if as_json:
        print_json(
            [
                {"topic": row.topic, "partition": row.partition, "result": outcome.error.name}
                for row, outcome in sorted(outcomes.items())
            ]
        )
    _tell(kind, outcomes, silent=as_json)


def _tell(kind: ElectionType, outcomes: dict[TopicPartition, Outcome], *, silent: bool) -> None:
    """What became of it, in the words of Kafka's tool. Raises ClickException if one could not be elected."""
    elected = [row for row, outcome in sorted(outcomes.items()) if not outcome.error]
    needless = [row for row, outcome in sorted(outcomes.items()) if outcome.error == ErrorCode.ELECTION_NOT_NEEDED]
    failed = [row for row in sorted(outcomes) if row not in elected and row not in needless]
    if not silent:
        if elected:
            click.echo(f"Successfully completed leader election ({kind.name}) for partitions {_names(elected)}")
        if needless:
            click.echo(f"Valid replica already elected for partitions {_names(needless)}")
        for row in failed:
            outcome = outcomes[row]
            reason = f"{outcome.error.name}: {outcome.message}" if outcome.message else outcome.error.name
            click.echo(f"Error completing leader election ({kind.name}) for partition: {row}: {reason}")
    if failed:
        raise click.ClickException(f"{len(failed)} replica(s) could not be elected")


def _names(partitions: list[TopicPartition]) -> str:
    return ", ".join(map(str, partitions))
