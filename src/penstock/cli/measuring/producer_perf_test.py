"""`penstock producer-perf-test`: send records and measure, with options and lines of kafka-producer-perf-test.sh."""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Final
from uuid import uuid4

import click

from penstock.cli.measuring.clients import CLIENT, sender, topic_of
from penstock.cli.measuring.latencies import Latencies
from penstock.cli.measuring.ports import Sender
from penstock.cli.measuring.settings import Servers, config_option, properties_option
from penstock.cli.measuring.throttle import Throttle, throughput_option
from penstock.cli.terminal.failures import in_words
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import declared, option
from penstock.cli.terminal.session import run
from penstock.client.settings import ProducerSettings
from penstock.protocol.value import Value

DURATION_MS: Final = 3_000
LETTERS: Final = bytes(ord("A") + number % 26 for number in range(256))


class Records(Value, kw_only=True):
    """What is sent, and how many of it."""

    num_records: int = option("How many records to send.", required=True, min=1)
    warmup_records: int = option(
        "So many records come first, and do not count for a second summary of the others.",
        min=0,
        default=0,
        show_default=True,
    )
    record_size: int | None = option("Bytes of each record's value, random letters.", min=1)
    payload_file: Path | None = option("A file with values in UTF-8, of which each record gets a random one.")
    payload_delimiter: str = option("What stands between them.", default="\\n", show_default=True)
    payload_monotonic: bool = option("The value is the number of the record.")
    key_distribution: str = option(
        "Keys: none, all of a range in turn, or random ones of it.",
        type=click.Choice(["none", "range", "random"]),
        default="none",
        show_default=True,
    )
    record_key_range: int | None = option("Keys are numbers from 0 up to this one, without it.", min=1)
    random_seed: int = option("The same seed gives the same keys and values.", default=0, show_default=True)

    def check(self) -> None:
        """Raises UsageError."""
        if self.warmup_records >= self.num_records:
            raise click.UsageError("--warmup-records has to be less than --num-records")
        if (self.record_size is not None) + (self.payload_file is not None) + self.payload_monotonic != 1:
            raise click.UsageError("give exactly one of --record-size, --payload-file, --payload-monotonic")
        if (self.key_distribution != "none") != (self.record_key_range is not None):
            raise click.UsageError("--key-distribution range and random go with --record-key-range, and that with them")

    def values(self, random: Random) -> Iterator[bytes]:
        """One for each record. Raises click.ClickException."""
        if self.payload_monotonic:
            return (b"%d" % number for number in range(self.num_records))
        if self.payload_file is not None:
            payloads = self._payloads(self.payload_file)
            return (random.choice(payloads) for _ in range(self.num_records))
        size = self.record_size or 0
        return (random.randbytes(size).translate(LETTERS) for _ in range(self.num_records))

    def _payloads(self, path: Path) -> list[bytes]:
        say(f"Reading payloads from: {path.absolute()}")
        with in_words(OSError, UnicodeDecodeError, before=f"{path}: "):
            text = path.read_text(encoding="utf-8")
        if not text:
            raise click.ClickException(f"{path}: the file is empty")
        delimiter = self.payload_delimiter.replace("\\n", "\n")
        payloads = [part.encode() for part in text.removesuffix(delimiter).split(delimiter)]
        say(f"Number of records read: {len(payloads)}")
        return payloads

    def keys(self, random: Random) -> Iterator[bytes | None]:
        if self.record_key_range is None:
            return (None for _ in range(self.num_records))
        count = self.record_key_range
        if self.key_distribution == "range":
            return (b"%d" % (number % count) for number in range(self.num_records))
        return (b"%d" % random.randrange(count) for _ in range(self.num_records))


@click.command(short_help="send records and measure how fast that goes")
@declared
def command(
    servers: Servers,
    *,
    topic: str = option("The topic to send to.", required=True),
    records: Records,
    throughput: float = throughput_option(required=True),
    reporting_interval: int = option("How often to say how it goes, in ms.", min=1, default=5_000, show_default=True),
    properties: tuple[str, ...] = properties_option("--producer-props"),
    command_config: Path | None = config_option("--producer.config"),
    transactional_id: str | None = option("Send in transactions of this id (default with a duration: a new one)."),
    transaction_duration_ms: int | None = option(
        "Commit a transaction when it is so old (default with an id: 3000).", min=1
    ),
    client: str | None = CLIENT,
) -> None:
    """Send records to a topic and measure throughput and latency."""
    records.check()
    defaults = ProducerSettings(client_id="perf-producer-client")
    addresses, settings = servers.client(command_config, properties, defaults, {})
    settings = _in_transactions(settings, transactional_id, transaction_duration_ms)
    measured = Measured(records, reporting_interval)

    async def work() -> None:
        await topic_of(addresses, settings, topic, create=settings.allow_auto_create_topics)
        random = Random(records.random_seed)
        pairs = zip(records.values(random), records.keys(random), strict=True)
        async with sender(client, addresses, settings, topic) as sending:
            measured.begin()
            throttle = Throttle(throughput)
            transactions = Transactions(sending, settings, transaction_duration_ms)
            for number, (value, key) in enumerate(pairs, start=1):
                await transactions.before_record()
                await sending.send(value, key, measured.sent(number, len(value)))
                await transactions.after_record()
                await throttle.wait(number)
            await transactions.end()
            await sending.flush()
            measured.end()

    run(work())
    if measured.failed:
        raise click.ClickException(f"{measured.failed} of {records.num_records} records could not be sent")


def _in_transactions(settings: ProducerSettings, given: str | None, duration_ms: int | None) -> ProducerSettings:
    """With an id, if one is given or a duration is. Raises UsageError."""
    if given is None and duration_ms is not None and settings.transactional_id is None:
        given = f"performance-producer-{uuid4()}"
    settings = settings if given is None else settings.replace(transactional_id=given)
    if settings.transactional_id is not None and not settings.is_idempotent:
        raise click.UsageError("transactions need acks=all and enable.idempotence=true")
    return settings


class Transactions:
    """Begun with a record, and committed when they are old enough."""

    def __init__(self, sender: Sender, settings: ProducerSettings, duration_ms: int | None) -> None:
        self._sender = sender
        self._are_wanted = settings.transactional_id is not None
        self._duration_ms = DURATION_MS if duration_ms is None else duration_ms
        self._began_ms: float | None = None

    async def before_record(self) -> None:
        if self._are_wanted and self._began_ms is None:
            await self._sender.begin()
            self._began_ms = _now_ms()

    async def after_record(self) -> None:
        if self._began_ms is not None and _now_ms() - self._began_ms >= self._duration_ms:
            await self.end()

    async def end(self) -> None:
        if self._began_ms is not None:
            await self._sender.commit()
            self._began_ms = None


class Measured:
    """Of all records, and of those after the warm-up."""

    def __init__(self, records: Records, interval_ms: int) -> None:
        self._warmup = records.warmup_records
        self._expected = records.num_records
        self._interval_ms = interval_ms
        self._stats: list[Latencies] = []
        self.failed = 0

    def begin(self) -> None:
        if self._warmup:
            say(
                f"Warmup first {self._warmup} records. Steady state results will print after the complete test summary."
            )
        self._stats = [Latencies(self._expected, self._interval_ms, _now_ms())]

    def sent(self, number: int, size: int) -> partial[None]:
        """What is to be called when the record is acknowledged."""
        if number == self._warmup + 1 and self._warmup:
            self._stats[0].is_silent = True
            steady = Latencies(self._expected - self._warmup, self._interval_ms, _now_ms(), " steady state")
            self._stats = [*self._stats, steady]
            say("In steady state.")
        return partial(self._acknowledged, self._stats, _now_ms(), size)

    def _acknowledged(self, stats: list[Latencies], sent_ms: float, size: int, error: BaseException | None) -> None:
        if error is not None:
            self.failed += 1
            if self.failed == 1:
                say(f"Error: {error}", err=True)
            return
        now_ms = _now_ms()
        for one in stats:
            one.record(now_ms - sent_ms, size, now_ms)

    def end(self) -> None:
        say(*(one.total_line(_now_ms()) for one in self._stats))


def _now_ms() -> float:
    return time.monotonic() * 1000
