"""`penstock delete-records`: cut off the beginnings of partitions, as kafka-delete-records.sh does."""

import json
from pathlib import Path
from typing import Final

import click

from penstock.cli.terminal.failures import in_words
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import JSON, declared, option
from penstock.cli.terminal.output import print_json
from penstock.cli.terminal.session import BrokerSession
from penstock.client.at_leaders import Failures
from penstock.client.errors import ClientError
from penstock.client.values import TopicPartition
from penstock.protocol.errors import KafkaError

VERSION: Final = 1
FORM: Final = '{"partitions": [{"topic": "t", "partition": 0, "offset": 100}], "version": 1}'
TO_THE_END: Final = -1
"""The offset that stands for all that is committed."""


@click.command(short_help="delete the first records of partitions")
@declared
def command(
    session: BrokerSession,
    offset_json_file: Path = option(
        f"A file with {FORM}: what lies before the offset goes; -1 stands for all records.", required=True
    ),
    as_json: bool = JSON,
) -> None:
    """Delete the records of partitions that lie before given offsets."""
    offsets = _read(offset_json_file)
    if not as_json:
        say("Executing records delete operation")
    done, failures = session.run(lambda admin: admin.topics.delete_records_that_can_be(offsets))
    if as_json:
        print_json([_as_json(partition, done, failures) for partition in sorted(offsets)])
    else:
        say("Records delete operation completed:", *(_line(partition, done, failures) for partition in sorted(offsets)))
    if failures:
        raise click.exceptions.Exit(1)


def _line(partition: TopicPartition, done: dict[TopicPartition, int], failures: Failures) -> str:
    if partition in done:
        return f"partition: {partition}\tlow_watermark: {done[partition]}"
    return f"partition: {partition}\terror: {failures[partition]}"


def _as_json(partition: TopicPartition, done: dict[TopicPartition, int], failures: Failures) -> dict[str, object]:
    error: ClientError | KafkaError | None = failures.get(partition)
    return {
        **partition._asdict(),
        "low_watermark": done.get(partition),
        "error": error.code.name if isinstance(error, KafkaError) else None if error is None else str(error),
    }


def _read(path: Path) -> dict[TopicPartition, int]:
    """Raises click.ClickException."""
    with in_words(OSError, ValueError, before=f"{path}: "):
        document = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(document, dict) or not isinstance(document.get("partitions"), list):
            raise ValueError(f"expected {FORM}")
        if document.get("version", VERSION) != VERSION:
            raise ValueError(f"version {document['version']} is not known, only {VERSION} is")
        offsets: dict[TopicPartition, int] = {}
        for row in document["partitions"]:
            match row:
                case {"topic": str(topic), "partition": int(number), "offset": int(offset)} if (
                    number >= 0 and offset >= TO_THE_END
                ):
                    partition = TopicPartition(topic, number)
                case _:
                    raise ValueError(f"{row}: a topic, the number of a partition and an offset are needed")
            if partition in offsets:
                raise ValueError(f"Offset json file contains duplicate topic partitions: {partition}")
            offsets[partition] = offset
        return offsets
