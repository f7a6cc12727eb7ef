"""`penstock produce`: send the lines of the standard input, with the options of kafka-console-producer.sh."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.cli.records.lines import LineFormat, LineFormatError
from penstock.cli.records.progress import Progress
from penstock.cli.terminal.failures import wrong_usage
from penstock.cli.terminal.lines import prompt, say
from penstock.cli.terminal.options import JSON, declared, option
from penstock.cli.terminal.output import print_json
from penstock.cli.terminal.session import (
    BOOTSTRAP_SERVER,
    parse_pairs,
    read_properties,
    run,
    servers_from,
    settings_from,
)
from penstock.client.producer import Producer
from penstock.client.settings import ProducerSettings
from penstock.client.values import RecordMetadata

if TYPE_CHECKING:
    from penstock.cli.records.by_schema import BySchema

CHUNK_BYTES: Final = 65_536
PROMPT: Final = "> "


NUMBERS: Final = {
    "--batch-size": ("batch.size", 1, "Bytes of a batch."),
    "--max-partition-memory-bytes": ("batch.size", 1, "The same; Kafka's older name."),
    "--timeout": ("linger.ms", 0, "How long a batch waits for more, in ms."),
    "--max-block-ms": ("max.block.ms", 0, "How long a send waits for metadata and for room in the buffer."),
    "--max-memory-bytes": ("buffer.memory", 1, "Bytes that wait to be sent at most."),
    "--message-send-max-retries": ("retries", 0, "How often a batch is sent again."),
    "--metadata-expiry-ms": ("metadata.max.age.ms", 0, "How old what is known of the cluster may be."),
    "--request-timeout-ms": ("request.timeout.ms", 1, "How long a broker may take to answer."),
    "--retry-backoff-ms": ("retry.backoff.ms", 0, "The pause before the first of these."),
}
"""Each option with its setting of the producer, its least value and its help."""


NUMBER_OPTIONS: Final[Any] = {
    name.removeprefix("--").replace("-", "_"): option(text, name, min=least)
    for name, (_, least, text) in NUMBERS.items()
}


@click.command(short_help="send lines of the standard input to a topic")
@declared
def command(
    bootstrap_server: str = BOOTSTRAP_SERVER,
    topic: str = option("The topic to send to.", required=True),
    properties: tuple[str, ...] = option("Same as --reader-property.", "--property", metavar="KEY=VALUE"),
    reader_properties: tuple[str, ...] = option(
        "How to read a line: parse.key, key.separator, parse.headers, headers.delimiter, headers.separator, "
        "headers.key.separator, null.marker, ignore.error.",
        "--reader-property",
        metavar="KEY=VALUE",
    ),
    reader_config: Path | None = option("A file of these."),
    producer_properties: tuple[str, ...] = option(
        "A setting of the producer, such as acks=1, linger.ms=20 or partitioner.class=mymodule:MyPartitioner.",
        "--producer-property",
        "--command-property",
        metavar="KEY=VALUE",
    ),
    producer_config: Path | None = option("A file of these.", "--producer.config", "--command-config"),
    compression: str | None = option(
        "none, gzip, snappy, lz4 or zstd; without a value gzip.",
        "--compression-codec",
        "--compression-type",
        is_flag=False,
        flag_value="gzip",
        metavar="CODEC",
    ),
    acks: str | None = option("0, 1 or all (default all).", "--request-required-acks"),
    numbers: dict[str, int | None] = NUMBER_OPTIONS,
    schema_registry: str | None = option("The schema registry of the next two.", metavar="URL"),
    key_schema: str | None = option("Keys are JSON, and are sent by this subject's latest schema.", metavar="SUBJECT"),
    value_schema: str | None = option("The same for values: Avro, JSON Schema or Protobuf.", metavar="SUBJECT"),
    sync: bool = option("Wait for each record before the next is sent."),
    as_json: bool = JSON,
) -> None:
    """Send each line of the standard input as a record."""
    options: dict[str, str | int | None] = {"compression.type": compression, "acks": acks}
    for (key, _, _), number in zip(NUMBERS.values(), numbers.values(), strict=True):
        options[key] = options.get(key) if number is None else number
    of_file = read_properties(producer_config)
    settings = settings_from(
        ProducerSettings(client_id="console-producer"),
        of_file,
        {key: str(value) for key, value in options.items() if value is not None},
        parse_pairs(producer_properties, "--producer-property"),
    )
    line_format = _line_format(reader_config, properties, reader_properties)
    servers = servers_from(bootstrap_server, of_file)
    by_schema = _by_schema(schema_registry, key_schema, value_schema)
    sent, failed = run(_produce(servers, settings, topic, line_format, by_schema, sync))
    if as_json:
        print_json({"topic": topic, "sent": sent, "failed": failed})
    if failed:
        raise click.exceptions.Exit(1)


def _line_format(config: Path | None, *options: tuple[str, ...]) -> LineFormat:
    properties = read_properties(config)
    for pairs in options:
        properties |= parse_pairs_as_they_are(pairs)
    with wrong_usage(ValueError):
        return LineFormat.from_properties(properties)


def parse_pairs_as_they_are(texts: tuple[str, ...]) -> dict[str, str]:
    """Like `parse_pairs`, but a separator may be a blank: nothing is stripped."""
    parse_pairs(texts, "--property")
    return {key.strip(): value for key, _, value in (text.partition("=") for text in texts)}


def _by_schema(registry: str | None, key: str | None, value: str | None) -> Callable[[], Awaitable[BySchema]] | None:
    if not (key or value):
        return None
    if registry is None:
        raise click.UsageError("--key-schema and --value-schema are subjects of a --schema-registry URL")
    from penstock.cli.records.by_schema import BySchema

    return lambda: BySchema.of(registry, key, value)


async def _produce(
    bootstrap_server: str,
    settings: ProducerSettings,
    topic: str,
    line_format: LineFormat,
    by_schema: Callable[[], Awaitable[BySchema]] | None,
    sync: bool,
) -> tuple[int, int]:
    sent = failed = 0
    making = None if by_schema is None else await by_schema()

    def told(where: RecordMetadata | None, error: BaseException | None) -> None:
        nonlocal failed
        if error is not None:
            failed += 1
            if failed == 1:
                say(f"Error: {error}", err=True)

    with wrong_usage(ValueError):
        sender = Producer(bootstrap_server, settings)
    async with sender as producer:
        with Progress.of_input("sent") as progress:
            async for line in _lines():
                try:
                    record = line_format.parse(line)
                    record = record if making is None else making.made(record)
                except LineFormatError as error:
                    if line_format.ignore_error:
                        continue
                    raise click.ClickException(f"line {sent + 1}: {error}") from None
                if sync:
                    await producer.send_and_wait(topic, record.value, key=record.key, headers=record.headers)
                else:
                    await producer.send(topic, record.value, key=record.key, headers=record.headers, callback=told)
                sent += 1
                progress.advance(1, len(line) + 1)
            await producer.flush()
    return sent, failed


async def _lines() -> AsyncIterator[bytes]:
    """Lines of the standard input; on a terminal with a prompt before each."""
    chunks: asyncio.Queue[bytes] = asyncio.Queue(maxsize=4)
    loop = asyncio.get_running_loop()
    # A daemon, and not asyncio's own pool, which would wait at Ctrl-C for a thread that waits for input.
    threading.Thread(target=_read, args=(loop, chunks), name="read standard input", daemon=True).start()
    rest = b""
    while chunk := await chunks.get():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
    if rest:
        yield rest


def _read(loop: asyncio.AbstractEventLoop, chunks: asyncio.Queue[bytes]) -> None:
    stream = sys.stdin.buffer
    try:
        descriptor: int | None = stream.fileno()
    except OSError:
        descriptor = None
    interactive = sys.stdin.isatty()
    chunk = b"begin"
    while chunk:
        if interactive:
            prompt(PROMPT)
        # Not through Python's buffer where there is a real file: it would be locked when the process ends.
        chunk = stream.read(CHUNK_BYTES) if descriptor is None else os.read(descriptor, CHUNK_BYTES)
        putting = chunks.put(chunk)
        try:
            asyncio.run_coroutine_threadsafe(putting, loop).result()
        except (RuntimeError, CancelledError):  # the loop is over, or ends now
            putting.close()
            return
