"""`penstock offsets`: the offsets of partitions by time, with the options of kafka-get-offsets.sh."""

from typing import Final

import click

from penstock.cli.terminal.names import matching, parse_numbers, parse_topic_partitions
from penstock.cli.terminal.options import JSON, declared, option
from penstock.cli.terminal.output import print_rows
from penstock.cli.terminal.session import BrokerSession, complain_of
from penstock.client.admin import Admin
from penstock.client.log_offsets import Failures
from penstock.client.messages import Found
from penstock.client.values import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, MAX_TIMESTAMP, TopicPartition
from penstock.protocol.internal_topics import STORAGE_GROUPS

SPECIAL: Final = {
    "latest": LATEST,
    "earliest": EARLIEST,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": EARLIEST_LOCAL,
    "latest-tiered": LATEST_TIERED,
}


@click.command(short_help="show the offsets of partitions")
@declared
def command(
    session: BrokerSession,
    topic: str | None = option("Topics: a regular expression, several with commas (default: all)."),
    partitions: str | None = option("Partitions of them, such as 0,2,5-7 (default: all)."),
    topic_partitions: str | None = option("Topics with partitions, such as clicks:0,2 users (several with blanks)."),
    moment: str = option(
        f"{', '.join(SPECIAL)}, their numbers -1 to -5, or milliseconds since 1970: the first record from then on.",
        "--time",
        default="latest",
        show_default=True,
    ),
    exclude_internal_topics: bool = option("Leave out internal topics."),
    as_json: bool = JSON,
) -> None:
    """Show the offset of each partition at a moment."""
    timestamp_ms = _parse_moment(moment)
    numbers = None if partitions is None else set(parse_numbers(partitions, "--partitions"))
    if topic_partitions is not None and (topic is not None or partitions is not None):
        raise click.UsageError("give --topic-partitions or --topic and --partitions, not both")

    async def work(admin: Admin) -> tuple[Found, Failures]:
        names = await admin.topics.names(include_internal=not exclude_internal_topics)
        counts = admin.cluster.metadata.partition_counts()
        if topic_partitions is not None:
            texts = topic_partitions.split()
            chosen = [one for text in texts for one in parse_topic_partitions(text, counts, "--topic-partitions")]
        else:
            readable = [name for name in names if name != STORAGE_GROUPS]
            taken = readable if topic is None else matching(topic, names, "--topic")
            if topic is not None and not taken:
                raise click.ClickException(f"topic {topic!r} does not exist")
            every = (TopicPartition(name, n) for name in taken for n in range(counts.get(name, 0)))
            chosen = [one for one in every if numbers is None or one.partition in numbers]
        return await admin.offsets_that_can_be_had(dict.fromkeys(chosen, timestamp_ms))

    found, failures = session.run(work)
    rows = [(p.topic, p.partition, _known(value.offset), _known(value.timestamp_ms)) for p, value in found.items()]
    print_rows(["TOPIC", "PARTITION", "OFFSET", "TIMESTAMP"], rows, as_json=as_json, empty="no partition to show")
    complain_of(failures)


def _parse_moment(text: str) -> int:
    if text in SPECIAL:
        return SPECIAL[text]
    try:
        number = int(text)
    except ValueError:
        number = LATEST_TIERED - 1
    if number < LATEST_TIERED:
        raise click.UsageError(f"--time: {text!r} is neither one of {', '.join(SPECIAL)} nor a time in milliseconds")
    return number


def _known(number: int) -> int | None:
    return number if number >= 0 else None
