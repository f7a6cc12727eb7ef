"""`penstock share-consumer-perf-test`: read in a share group and measure, with options and lines of
kafka-share-consumer-perf-test.sh.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import click

from penstock.cli.measuring.dates import Dated
from penstock.cli.measuring.latencies import MEBIBYTE
from penstock.cli.measuring.settings import Servers, config_option, properties_option
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import declared, option
from penstock.cli.terminal.session import run
from penstock.client.settings import ShareConsumerSettings
from penstock.client.share import ShareConsumer
from penstock.protocol.value import Value

HEADER: Final = "start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, fetch.time.ms"
POLL_MS: Final = 100


class Report(Dated, kw_only=True):
    reporting_interval: int = option("How often to say how it goes, in ms.", min=1, default=5_000, show_default=True)
    show_detailed_stats: bool = option("Say it of each consumer at each interval, too.")
    show_consumer_stats: bool = option("Say in the end what each consumer has read.")

    def figures(self, begin_s: float, end_s: float, size: int, records: int, of: "Counted") -> str:
        """Of so many bytes and records between two times, `of` all that was read by then."""
        seconds = max(end_s - begin_s, 0.001)
        rates = f"{size / MEBIBYTE / seconds:.4f}, {records / seconds:.4f}"
        times = f"{self.date(begin_s)}, {self.date(end_s)}"
        return f"{times}, {of.size / MEBIBYTE:.4f}, {rates}, {of.records}, {(end_s - begin_s) * 1000:.0f}"


class Counted:
    """What was read, by one consumer or by all."""

    def __init__(self) -> None:
        self.records = self.size = 0

    def add(self, records: int, size: int) -> None:
        self.records += records
        self.size += size


class Wanted(Value, kw_only=True):
    topic: str = option("The topic to read.", required=True)
    num_records: int = option("Stop after so many records.", "--num-records", "--messages", required=True, min=1)
    timeout_ms: int = option(
        "Stop when no record came for this long.", "--timeout", min=0, default=10_000, show_default=True, metavar="MS"
    )
    threads: int = option("How many consumers share the records.", min=1, default=1, show_default=True)


@click.command(short_help="read records as members of a share group and measure how fast that goes")
@declared
def command(
    servers: Servers,
    *,
    wanted: Wanted,
    report: Report,
    group: str = option("The share group to read as.", default="perf-share-consumer", show_default=True),
    fetch_size: int = option("Bytes in a fetch.", min=1, default=1 << 20, show_default=True),
    properties: tuple[str, ...] = properties_option(),
    command_config: Path | None = config_option("--consumer.config"),
) -> None:
    """Read records as members of a share group, accept them, and measure the throughput. A share group begins with what
    comes next: `penstock configs --entity-type groups --entity-name GROUP --alter --add-config
    share.auto.offset.reset=earliest`.
    """
    report.date(0)
    options = {"group.id": group, "fetch.max.bytes": fetch_size, "check.crcs": "false"}
    defaults = ShareConsumerSettings(client_id="perf-share-consumer-client")
    addresses, settings = servers.client(command_config, properties, defaults, options)
    names = [f"{settings.client_id}-{number}" for number in range(1, wanted.threads + 1)]
    each = [settings] if wanted.threads == 1 else [settings.replace(client_id=name) for name in names]

    async def work() -> None:
        async with AsyncExitStack() as stack:
            consumers = [await stack.enter_async_context(ShareConsumer(addresses, it)) for it in each]
            await _measure(consumers, wanted, report)

    run(work())


async def _measure(consumers: list[ShareConsumer], wanted: Wanted, report: Report) -> None:
    if not report.hide_header:
        say(HEADER)
    for consumer in consumers:
        await consumer.subscribe([wanted.topic])
    begun_s, together, each = time.time(), Counted(), [Counted() for _ in consumers]
    async with asyncio.TaskGroup() as tasks:
        for number, consumer in enumerate(consumers):
            tasks.create_task(_read(consumer, number + 1, wanted, report, each[number], together))
    ended_s = time.time()
    if report.show_consumer_stats:
        for number, (consumer, counted) in enumerate(zip(consumers, each, strict=True), 1):
            figures = report.figures(begun_s, ended_s, counted.size, counted.records, counted)
            client = consumer.settings.client_id
            say(f"Share consumer {number} having client id {client} consumption metrics- {figures}")
    if together.records < wanted.num_records:
        say(
            f"WARNING: Exiting before consuming the expected number of records: timeout ({wanted.timeout_ms} ms) "
            "exceeded. You can use the --timeout option to increase the timeout."
        )
    for consumer in consumers:
        await consumer.commit_sync()
    say(report.figures(begun_s, ended_s, together.size, together.records, together))


async def _read(
    consumer: ShareConsumer, number: int, wanted: Wanted, report: Report, own: Counted, together: Counted
) -> None:
    last_s = said_s = time.time()
    said_records = said_size = 0
    while together.records < wanted.num_records and (time.time() - last_s) * 1000 <= wanted.timeout_ms:
        records = await consumer.poll(POLL_MS)
        if not records:
            continue
        last_s = time.time()
        size = sum(len(record.key or b"") + len(record.value or b"") for record in records)
        own.add(len(records), size)
        together.add(len(records), size)
        if (last_s - said_s) * 1000 >= report.reporting_interval:
            if report.show_detailed_stats:
                news = own.size - said_size, own.records - said_records
                say(f"{report.figures(said_s, last_s, *news, own)} for share consumer {number}")
            said_s, said_records, said_size = last_s, own.records, own.size
