"""`penstock consume`: print the records of a topic, with the options of kafka-console-consumer.sh, and with `--share`
those of kafka-console-share-consumer.sh.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from penstock.cli.records.formatters import Formatter, formatter
from penstock.cli.records.lines import RecordFormat, record_as_json
from penstock.cli.records.produce import parse_pairs_as_they_are
from penstock.cli.records.share import SETTINGS, Sharing, take_shared
from penstock.cli.terminal.failures import wrong_usage
from penstock.cli.terminal.lines import say, write_bytes
from penstock.cli.terminal.names import matching
from penstock.cli.terminal.options import JSON, declared, option
from penstock.cli.terminal.session import (
    BOOTSTRAP_SERVER,
    parse_pairs,
    read_properties,
    run,
    servers_from,
    settings_from,
    show_settings,
)
from penstock.client.consumer import Consumer
from penstock.client.settings import ConsumerSettings, ShareConsumerSettings
from penstock.client.values import ConsumedRecord, TopicPartition
from penstock.protocol.value import Value

POLL_MS: Final = 1_000


class Wanted(Value, kw_only=True):
    topic: str | None = option("The topic to read.")
    include: str | None = option(
        "Topics to read: a regular expression, several with commas.", "--include", "--whitelist"
    )
    partition: int | None = option("Only this partition.", min=0)
    offset: str | None = option("Where to begin in it: a number, earliest or latest (the default).")
    from_beginning: bool = option("Begin with the first record, where the group has no offset.")
    group: str | None = option("Read as a member of this group and commit its offsets.")
    max_messages: int | None = option("Stop after so many records.", min=1)
    timeout_ms: int | None = option("Stop when no record came for this long.", min=0)
    raw: bool = option("Print bytes as they are, also on a terminal.")


class Shape(Value, kw_only=True):
    properties: tuple[str, ...] = option(
        "What to print: print.timestamp, print.partition, print.offset, print.headers, print.key, print.value (true "
        "or false), key.separator, line.separator, headers.separator, null.literal.",
        "--property",
        "--formatter-property",
        metavar="KEY=VALUE",
    )
    formatter_config: Path | None = option("A file of these.")
    formatter_name: str | None = option(
        "DefaultMessageFormatter, NoOpMessageFormatter, LoggingMessageFormatter, OffsetsMessageFormatter, "
        "GroupMetadataMessageFormatter, or your own function of a record as module:function.",
        "--formatter",
        metavar="CLASS",
    )
    key_deserializer: str | None = option("Show keys as text by this one, such as LongDeserializer.", metavar="CLASS")
    value_deserializer: str | None = option("Show values as text by this one.", metavar="CLASS")
    skip_message_on_error: bool = option("Pass over records that cannot be shown.")

    def writer(self, *, as_json: bool) -> Formatter:
        """Raises UsageError."""
        shown = {"key.deserializer": self.key_deserializer, "value.deserializer": self.value_deserializer}
        with wrong_usage(ValueError):
            record_format = RecordFormat.from_properties(
                read_properties(self.formatter_config)
                | parse_pairs_as_they_are(self.properties)
                | {key: value for key, value in shown.items() if value is not None}
            )
        write = record_as_json if as_json else formatter(self.formatter_name, record_format)
        return _passing_over(write) if self.skip_message_on_error else write


@click.command(short_help="print the records of a topic")
@declared
def command(
    *,
    bootstrap_server: str = BOOTSTRAP_SERVER,
    wanted: Wanted,
    sharing: Sharing,
    shape: Shape,
    isolation_level: str | None = option(
        "Whether records of open and aborted transactions are read.",
        type=click.Choice(["read_uncommitted", "read_committed"]),
    ),
    consumer_properties: tuple[str, ...] = option(
        "A setting of the consumer, such as fetch.min.bytes=1000.",
        "--consumer-property",
        "--command-property",
        metavar="KEY=VALUE",
    ),
    consumer_config: Path | None = option(
        "A file of these.", "--consumer.config", "--consumer-config", "--command-config"
    ),
    show_config: bool = option("Only show the settings of the consumer that would hold."),
    as_json: bool = JSON,
) -> None:
    """Print records as they come, one per line, until Ctrl-C (or --max-messages, or --timeout-ms)."""
    sharing.check()
    if not show_config:
        _check(wanted, isolation_level, is_shared=sharing.share)
    options = {
        "group.id": wanted.group,
        "isolation.level": isolation_level,
        "auto.offset.reset": "earliest" if wanted.from_beginning else None,
    }
    of_file = read_properties(consumer_config)
    settings = settings_from(
        SETTINGS if sharing.share else ConsumerSettings(client_id="console-consumer"),
        of_file,
        parse_pairs(consumer_properties, "--consumer-property"),
        {key: value for key, value in options.items() if value is not None},
    )
    if show_config:
        show_settings(settings, type(settings)(), as_json=as_json)
        return
    write = shape.writer(as_json=as_json)
    counted, servers = [0], servers_from(bootstrap_server, of_file)

    def show(record: ConsumedRecord) -> None:
        write_bytes(write(record), as_they_are=wanted.raw)
        counted[0] += 1

    async def work() -> None:
        if isinstance(settings, ShareConsumerSettings):
            assert wanted.topic is not None
            limits = {"max_messages": wanted.max_messages, "timeout_ms": wanted.timeout_ms}
            await take_shared(servers, settings, wanted.topic, show, sharing, **limits, poll_ms=POLL_MS)
            return
        async with Consumer(servers, settings) as consumer:
            await _choose(consumer, wanted, settings)
            await _print(consumer, wanted, write, counted)

    with suppress(click.exceptions.Exit):  # Ctrl-C is the usual end
        run(work())
    say(f"processed {counted[0]} records", err=True)


def _passing_over(write: Formatter) -> Formatter:
    """Names records that cannot be shown on the standard error and leaves them out."""

    def or_nothing(record: ConsumedRecord) -> bytes:
        try:
            return write(record)
        except ValueError as error:
            say(f"{record.topic_partition} at offset {record.offset}: {error}", err=True)
            return b""

    return or_nothing


def _check(wanted: Wanted, isolation_level: str | None, *, is_shared: bool) -> None:
    alone = wanted.include, wanted.partition, wanted.offset, wanted.from_beginning or None, isolation_level
    if is_shared and (wanted.topic is None or any(one is not None for one in alone)):
        raise click.UsageError(
            "--share needs --topic NAME, and goes without --include, --partition, --offset, --from-beginning and "
            "--isolation-level: where a share group begins, and what it sees, its keys share.auto.offset.reset and "
            "share.isolation.level say"
        )
    if (wanted.topic is None) == (wanted.include is None):
        raise click.UsageError("give --topic NAME or --include EXPRESSION")
    if wanted.partition is not None and (wanted.topic is None or wanted.group is not None):
        raise click.UsageError("--partition needs --topic, and goes without --group")
    if wanted.offset is not None:
        if wanted.partition is None or wanted.from_beginning:
            raise click.UsageError("--offset needs --partition, and goes without --from-beginning")
        if wanted.offset not in ("earliest", "latest") and not wanted.offset.isdigit():
            raise click.UsageError(f"--offset: {wanted.offset!r} is neither a number nor earliest nor latest")


async def _choose(consumer: Consumer, wanted: Wanted, settings: ConsumerSettings) -> None:
    """Takes part in the group; without one reads all partitions."""
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
    loop = asyncio.get_running_loop()
    last_at = loop.time()
    limit = wanted.max_messages
    while limit is None or counted[0] < limit:
        left = None if limit is None else limit - counted[0]
        wait_ms = POLL_MS if wanted.timeout_ms is None else min(POLL_MS, wanted.timeout_ms)
        records = await consumer.poll(wait_ms, left and min(left, 500))
        if records:
            last_at = loop.time()
            write_bytes(b"".join(map(format_record, records)), as_they_are=wanted.raw)
            counted[0] += len(records)
        elif wanted.timeout_ms is not None and (loop.time() - last_at) * 1000 >= wanted.timeout_ms:
            return
