"""`penstock consume`: print the records of a topic, with the options of kafka-console-consumer.sh."""

import asyncio
import sys
from pathlib import Path
from typing import Final

import click

from penstock.cli.common.names import matching
from penstock.cli.common.session import (
    bootstrap_option,
    json_option,
    parse_pairs,
    read_properties,
    run,
    settings_from,
    show_settings,
)
from penstock.cli.records.formatters import Formatter, formatter
from penstock.cli.records.lines import RecordFormat, record_as_json
from penstock.cli.records.produce import parse_pairs_as_they_are
from penstock.client.consumer import Consumer
from penstock.client.settings import ConsumerSettings
from penstock.client.values import ConsumedRecord, TopicPartition
from penstock.protocol.value import Value

POLL_MS: Final = 1_000


class Wanted(Value, kw_only=True):
    """What to read and when to stop."""

    topic: str | None
    include: str | None
    partition: int | None
    offset: str | None
    from_beginning: bool
    max_messages: int | None
    timeout_ms: int | None


@click.command(short_help="print the records of a topic")
@bootstrap_option
@click.option("--topic", help="The topic to read.")
@click.option("--include", "--whitelist", "include", help="Topics to read: a regular expression, several with commas.")
@click.option("--partition", type=click.IntRange(min=0), help="Only this partition.")
@click.option("--offset", help="Where to begin in it: a number, earliest or latest (the default).")
@click.option("--from-beginning", is_flag=True, help="Begin with the first record, where the group has no offset.")
@click.option("--group", help="Read as a member of this group and commit its offsets.")
@click.option("--max-messages", type=click.IntRange(min=1), help="Stop after so many records.")
@click.option("--timeout-ms", type=click.IntRange(min=0), help="Stop when no record came for this long.")
@click.option(
    "--property",
    "--formatter-property",
    "properties",
    multiple=True,
    metavar="KEY=VALUE",
    help="What to print: print.timestamp, print.partition, print.offset, print.headers, print.key, print.value (true "
    "or false), key.separator, line.separator, headers.separator, null.literal.",
)
@click.option(
    "--formatter-config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A file of these."
)
@click.option(
    "--formatter",
    "formatter_name",
    metavar="CLASS",
    help="DefaultMessageFormatter, NoOpMessageFormatter, LoggingMessageFormatter, OffsetsMessageFormatter, "
    "GroupMetadataMessageFormatter, or your own function of a record as module:function.",
)
@click.option("--key-deserializer", metavar="CLASS", help="Show keys as text by this one, such as LongDeserializer.")
@click.option("--value-deserializer", metavar="CLASS", help="Show values as text by this one.")
@click.option("--skip-message-on-error", is_flag=True, help="Pass over records that cannot be shown.")
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    help="Whether records of open and aborted transactions are read.",
)
@click.option(
    "--consumer-property",
    "--command-property",
    "consumer_properties",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the consumer, such as fetch.min.bytes=1000.",
)
@click.option(
    "--consumer.config",
    "--command-config",
    "consumer_config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of these.",
)
@click.option("--show-config", is_flag=True, help="Only show the settings of the consumer that would hold.")
@json_option
def command(
    bootstrap_server: str,
    group: str | None,
    properties: tuple[str, ...],
    formatter_config: Path | None,
    formatter_name: str | None,
    key_deserializer: str | None,
    value_deserializer: str | None,
    skip_message_on_error: bool,
    isolation_level: str | None,
    consumer_properties: tuple[str, ...],
    consumer_config: Path | None,
    show_config: bool,
    as_json: bool,
    **what: "str | int | bool | None",
) -> None:
    """Print records as they come, one per line, until Ctrl-C (or --max-messages, or --timeout-ms)."""
    wanted = Wanted(**what)  # type: ignore[arg-type]
    if not show_config:
        _check(wanted, group)
    options = {
        "group.id": group,
        "isolation.level": isolation_level,
        "auto.offset.reset": "earliest" if wanted.from_beginning else None,
    }
    settings = settings_from(
        ConsumerSettings(client_id="console-consumer"),
        read_properties(consumer_config),
        parse_pairs(consumer_properties, "--consumer-property"),
        {key: value for key, value in options.items() if value is not None},
    )
    if show_config:
        show_settings(settings, ConsumerSettings(), as_json=as_json)
        return
    shown = {"key.deserializer": key_deserializer, "value.deserializer": value_deserializer}
    try:
        record_format = RecordFormat.from_properties(
            read_properties(formatter_config)
            | parse_pairs_as_they_are(properties)
            | {key: value for key, value in shown.items() if value is not None}
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    write = record_as_json if as_json else formatter(formatter_name, record_format)
    format_record = _passing_over(write) if skip_message_on_error else write
    counted = [0]

    async def work() -> None:
        async with Consumer(bootstrap_server, settings) as consumer:
            await _choose(consumer, wanted, settings)
            await _print(consumer, wanted, format_record, counted)

    try:
        run(work())
    except click.exceptions.Exit:
        pass  # Ctrl-C is how one stops it
    click.echo(f"processed {counted[0]} records", err=True)


def _passing_over(write: Formatter) -> Formatter:
    """The same, but what cannot be shown is named on the standard error and left out."""

    def or_nothing(record: ConsumedRecord) -> bytes:
        try:
            return write(record)
        except ValueError as error:
            click.echo(f"{record.topic_partition} at offset {record.offset}: {error}", err=True)
            return b""

    return or_nothing


def _check(wanted: Wanted, group: str | None) -> None:
    if (wanted.topic is None) == (wanted.include is None):
        raise click.UsageError("give --topic NAME or --include EXPRESSION")
    if wanted.partition is not None and (wanted.topic is None or group is not None):
        raise click.UsageError("--partition needs --topic, and goes without --group")
    if wanted.offset is not None:
        if wanted.partition is None or wanted.from_beginning:
            raise click.UsageError("--offset needs --partition, and goes without --from-beginning")
        if wanted.offset not in ("earliest", "latest") and not wanted.offset.isdigit():
            raise click.UsageError(f"--offset: {wanted.offset!r} is neither a number nor earliest nor latest")


async def _choose(consumer: Consumer, wanted: Wanted, settings: ConsumerSettings) -> None:
    """Take part in the group; without one, read all partitions."""
    if settings.group_id is not None:
        if wanted.topic is not None:
            await consumer.subscribe([wanted.topic])
        else:
            assert wanted.include is not None
            await consumer.subscribe(pattern=wanted.include.replace(",", "|"))
        return
    if wanted.topic is not None:
        topics = [wanted.topic]
    else:
        assert wanted.include is not None
        names = (await consumer.cluster.refresh()).topics
        topics = matching(wanted.include, sorted(names), "--include")
        if not topics:
            raise click.ClickException(f"no topic matches {wanted.include!r}")
    partitions = [partition for topic in topics for partition in await consumer.partitions_for(topic)]
    if wanted.partition is not None:
        one = TopicPartition(topics[0], wanted.partition)
        if one not in partitions:
            raise click.ClickException(
                f"topic {one.topic!r} has no partition {one.partition}: it has {len(partitions)}, from 0 on"
            )
        partitions = [one]
    await consumer.assign(partitions)
    if wanted.offset == "earliest":
        consumer.seek_to_beginning()
    elif wanted.offset is not None and wanted.offset != "latest":
        consumer.seek(partitions[0], int(wanted.offset))


async def _print(consumer: Consumer, wanted: Wanted, format_record: Formatter, counted: list[int]) -> None:
    output = sys.stdout.buffer
    loop = asyncio.get_running_loop()
    last_at = loop.time()
    limit = wanted.max_messages
    while limit is None or counted[0] < limit:
        left = None if limit is None else limit - counted[0]
        wait_ms = POLL_MS if wanted.timeout_ms is None else min(POLL_MS, wanted.timeout_ms)
        records = await consumer.poll(wait_ms, left and min(left, 500))
        if records:
            last_at = loop.time()
            output.write(b"".join(map(format_record, records)))
            output.flush()
            counted[0] += len(records)
        elif wanted.timeout_ms is not None and (loop.time() - last_at) * 1000 >= wanted.timeout_ms:
            return
