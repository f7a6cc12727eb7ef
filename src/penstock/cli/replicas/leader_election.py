"""`penstock leader-election`: elect leaders of partitions, with the options of kafka-leader-election.sh."""

from pathlib import Path
from typing import Final

import click

from penstock.cli.replicas.partition_files import partitions_in
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import JSON, declared, option
from penstock.cli.terminal.output import print_rows
from penstock.cli.terminal.session import NodeSession
from penstock.client.admin.partitions import ElectionType, Outcome
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode

KINDS: Final = {kind.name.lower(): kind for kind in ElectionType}


@click.command(short_help="elect leaders of partitions")
@declared
def command(
    session: NodeSession,
    election_type: str = option("Who may be elected.", type=click.Choice(list(KINDS)), required=True),
    topic: str | None = option("One topic, with --partition."),
    partition: int | None = option("One partition of --topic.", min=0),
    all_topic_partitions: bool = option("All partitions of all topics."),
    path_to_json_file: Path | None = option('A file with {"partitions": [{"topic": "t", "partition": 0}]}.'),
    as_json: bool = JSON,
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
    outcomes = session.run(lambda admin: admin.partitions.elect_leaders(kind, asked))
    if as_json:
        rows = [(row.topic, row.partition, outcome.error.name) for row, outcome in sorted(outcomes.items())]
        print_rows(["topic", "partition", "result"], rows, as_json=True)
    _tell(kind, outcomes, silent=as_json)


def _tell(kind: ElectionType, outcomes: dict[TopicPartition, Outcome], *, silent: bool) -> None:
    """Uses the words of Kafka's tool. Raises ClickException if a leader could not be elected."""
    elected = [row for row, outcome in sorted(outcomes.items()) if not outcome.error]
    needless = [row for row, outcome in sorted(outcomes.items()) if outcome.error == ErrorCode.ELECTION_NOT_NEEDED]
    failed = [row for row in sorted(outcomes) if row not in elected and row not in needless]
    if not silent:
        if elected:
            say(f"Successfully completed leader election ({kind.name}) for partitions {_names(elected)}")
        if needless:
            say(f"Valid replica already elected for partitions {_names(needless)}")
        for row in failed:
            outcome = outcomes[row]
            reason = f"{outcome.error.name}: {outcome.message}" if outcome.message else outcome.error.name
            say(f"Error completing leader election ({kind.name}) for partition: {row}: {reason}")
    if failed:
        raise click.ClickException(f"{len(failed)} replica(s) could not be elected")


def _names(partitions: list[TopicPartition]) -> str:
    return ", ".join(map(str, partitions))
