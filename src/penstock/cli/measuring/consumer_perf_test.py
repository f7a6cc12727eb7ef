"""`penstock consumer-perf-test`: read records and measure, with options and lines of kafka-consumer-perf-test.sh."""

import time
from collections.abc import Sequence
from pathlib import Path
from secrets import randbelow
from typing import Final

import click

from penstock.cli.measuring.clients import CLIENT, reader, topic_of
from penstock.cli.measuring.dates import Dated
from penstock.cli.measuring.latencies import MEBIBYTE
from penstock.cli.measuring.ports import Reader
from penstock.cli.measuring.settings import Servers, config_option, properties_option
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.names import matching
from penstock.cli.terminal.options import declared, option
from penstock.cli.terminal.session import run
from penstock.client.cluster import ClusterClient
from penstock.client.settings import ConsumerSettings
from penstock.client.values import TopicPartition
from penstock.protocol.value import Value

FIGURES: Final = "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec"
FETCH_FIGURES: Final = "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
THREAD: Final = 0


class Report(Dated, kw_only=True):
    reporting_interval: int = option("How often to say how it goes, in ms.", min=1, default=5_000, show_default=True)
    show_detailed_stats: bool = option("Say it at each interval instead of once at the end.")

    def header(self) -> str:
        times = "time, threadId" if self.show_detailed_stats else "start.time, end.time"
        return f"{times}, {FIGURES}, {FETCH_FIGURES}"


class Wanted(Value, kw_only=True):
    topic: str | None = option("The topic to read.")
    include: str | None = option("Topics to read, of those that are there: a regular expression, several with commas.")
    num_records: int = option("Stop after so many records.", "--num-records", "--messages", required=True, min=1)
    timeout_ms: int = option(
        "Stop when no record came for this long.", "--timeout", min=0, default=10_000, show_default=True, metavar="MS"
    )

    async def topics(self, servers: str, settings: ConsumerSettings) -> Sequence[str]:
        """Raises ClientError, KafkaError, click.ClickException."""
        if self.topic is not None:
            return [(await topic_of(servers, settings, self.topic, create=settings.allow_auto_create_topics)).name]
        async with ClusterClient(servers, settings) as cluster:
            found = matching(self.include or "", sorted((await cluster.refresh()).topics), "--include")
        if not found:
            raise click.ClickException(f"no topic matches {self.include!r}")
        return found


@click.command(short_help="read records and measure how fast that goes")
@declared
def command(
    servers: Servers,
    *,
    wanted: Wanted,
    report: Report,
    group: str | None = option("The group to read as (default: a new one)."),
    fetch_size: int = option("Bytes of one partition in a fetch.", min=1, default=1 << 20, show_default=True),
    from_latest: bool = option("Begin with what comes next, where the group has no offset, instead of the beginning."),
    properties: tuple[str, ...] = properties_option(),
    command_config: Path | None = config_option("--consumer.config"),
    client: str | None = CLIENT,
) -> None:
    """Read records of topics and measure the throughput."""
    if (wanted.topic is None) == (wanted.include is None):
        raise click.UsageError("give --topic NAME or --include EXPRESSION")
    report.date(0)
    options = {
        "group.id": group or f"perf-consumer-{randbelow(100_000)}",
        "max.partition.fetch.bytes": fetch_size,
        "auto.offset.reset": "latest" if from_latest else "earliest",
        "check.crcs": "false",
    }
    defaults = ConsumerSettings(client_id="perf-consumer-client")
    addresses, settings = servers.client(command_config, properties, defaults, options)

    async def work() -> None:
        topics = await wanted.topics(addresses, settings)
        if not report.hide_header:
            say(report.header())
        counted = Counted(report)
        async with reader(client, addresses, settings, topics, counted) as reading:
            await _read(reading, wanted, counted)
            counted.end()

    run(work())


async def _read(reading: Reader, wanted: Wanted, counted: "Counted") -> None:
    last_s = time.monotonic()
    while counted.records < wanted.num_records:
        count, size = await reading.poll(wanted.num_records - counted.records)
        now_s = time.monotonic()
        if count:
            last_s = now_s
            counted.add(count, size)
        elif (now_s - last_s) * 1000 > wanted.timeout_ms:
            say(
                "WARNING: Exiting before consuming the expected number of records: timeout "
                f"({wanted.timeout_ms} ms) exceeded. You can use the --timeout option to increase the timeout."
            )
            return


class Counted:
    """What was read, in all and since the last line, and how long it took to get partitions."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._begun_s = self._said_s = self._waits_since_s = time.time()
        self._joined_s = self._joined_now_s = 0.0
        self._has: set[TopicPartition] = set()
        self._said_records = self._said_bytes = self._bytes = 0
        self.records = 0

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        if not self._has:
            waited_s = time.time() - self._waits_since_s
            self._joined_s += waited_s
            self._joined_now_s += waited_s
        self._has.update(partitions)

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._has.difference_update(partitions)
        if not self._has:
            self._waits_since_s = time.time()

    def add(self, records: int, size: int) -> None:
        self.records += records
        self._bytes += size
        now_s = time.time()
        if (now_s - self._said_s) * 1000 >= self._report.reporting_interval:
            self._say_interval(now_s)

    def _say_interval(self, now_s: float) -> None:
        records, size = self.records - self._said_records, (self._bytes - self._said_bytes) / MEBIBYTE
        if self._report.show_detailed_stats:
            figures = _figures(self._bytes, size, self.records, records, now_s - self._said_s, self._joined_now_s)
            say(f"{self._report.date(now_s)}, {THREAD}, {figures}")
        self._said_s, self._joined_now_s = now_s, 0.0
        self._said_records, self._said_bytes = self.records, self._bytes

    def end(self) -> None:
        if not self._report.show_detailed_stats:
            now_s = time.time()
            size, elapsed_s = self._bytes / MEBIBYTE, now_s - self._begun_s
            figures = _figures(self._bytes, size, self.records, self.records, elapsed_s, self._joined_s)
            say(f"{self._report.date(self._begun_s)}, {self._report.date(now_s)}, {figures}")


def _figures(all_bytes: int, size: float, all_records: int, records: int, elapsed_s: float, joined_s: float) -> str:
    """`size`, in MB, and `records` came in `elapsed_s`, of which `joined_s` went by without partitions."""
    fetch_s = elapsed_s - joined_s
    read = f"{all_bytes / MEBIBYTE:.4f}, {_rate(size, elapsed_s):.4f}, {all_records}, {_rate(records, elapsed_s):.4f}"
    fetched = f"{_rate(size, fetch_s):.4f}, {_rate(records, fetch_s):.4f}"
    return f"{read}, {joined_s * 1000:.0f}, {fetch_s * 1000:.0f}, {fetched}"


def _rate(amount: float, seconds: float) -> float:
    return amount / seconds if seconds > 0 else 0.0
