"""`penstock verifiable-producer`: send numbers and tell what became of each, as kafka-verifiable-producer.sh."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import click

from penstock.cli.measuring.settings import config_option
from penstock.cli.measuring.throttle import Throttle, throughput_option
from penstock.cli.terminal.lines import printable_json, say
from penstock.cli.terminal.options import declared, option
from penstock.cli.terminal.session import BOOTSTRAP_SERVER, read_properties, run, settings_from
from penstock.client.errors import ClientError
from penstock.client.producer import Producer
from penstock.client.settings import ProducerSettings, wall_clock_ms
from penstock.client.values import RecordMetadata
from penstock.protocol.errors import KafkaError

WITHOUT_RETRIES: Final = ProducerSettings(client_id="verifiable-producer", retries=0, enable_idempotence=False)


def say_event(name: str, **fields: Any) -> None:
    """A line of JSON."""
    say(printable_json({"timestamp": wall_clock_ms(), "name": name, **fields}, separators=(",", ":")))


@click.command(short_help="send numbers, and tell as JSON which were acknowledged")
@declared
def command(
    bootstrap_server: str = BOOTSTRAP_SERVER,
    *,
    topic: str = option("The topic to send to.", required=True),
    max_messages: int = option("How many to send; -1 until Ctrl-C.", min=-1, default=-1, show_default=True),
    throughput: int = throughput_option(default=-1, show_default=True),
    acks: str = option("0, 1 or -1 (all).", type=click.Choice(["0", "1", "-1"]), default="-1", show_default=True),
    message_create_time: int | None = option("The first record's timestamp, in ms since 1970."),
    value_prefix: int | None = option("A number that stands before each value, with a dot."),
    repeating_keys: int | None = option("Keys are the numbers from 0 up to this one, again and again.", min=1),
    command_config: Path | None = config_option("--producer.config"),
) -> None:
    """Send growing numbers to a topic, and print a line of JSON for each record that is acknowledged or fails."""
    settings = settings_from(WITHOUT_RETRIES, {"acks": acks}, read_properties(command_config))
    sending = Sending(topic, max_messages, throughput, message_create_time, value_prefix, repeating_keys)
    begun_s = time.monotonic()

    async def work() -> None:
        try:
            async with Producer(bootstrap_server, settings) as producer:
                await sending.run(producer)
        finally:
            sending.end(time.monotonic() - begun_s)

    run(work())


class Sending:
    def __init__(
        self, topic: str, most: int, rate: int, begins_ms: int | None, prefix: int | None, keys: int | None
    ) -> None:
        self._topic = topic
        self._most = most
        self._rate = rate
        self._begins_ms = begins_ms
        self._prefix = "" if prefix is None else f"{prefix}."
        self._keys = keys
        self._sent = self._acked = 0

    async def run(self, producer: Producer) -> None:
        say_event("startup_complete")
        throttle = Throttle(self._rate)
        begun_s = time.monotonic()
        while self._most < 0 or self._sent < self._most:
            at_ms = None
            if self._begins_ms is not None:
                at_ms = self._begins_ms + int((time.monotonic() - begun_s) * 1000)
            await self._send(producer, at_ms)
            await throttle.wait(self._sent)

    async def _send(self, producer: Producer, at_ms: int | None) -> None:
        value = f"{self._prefix}{self._sent}"
        key = None if self._keys is None else str(self._sent % self._keys)
        self._sent += 1

        def told(where: RecordMetadata | None, error: BaseException | None) -> None:
            self._told(key, value, where, error)

        key_bytes = None if key is None else key.encode()
        try:
            await producer.send(self._topic, value.encode(), key=key_bytes, timestamp_ms=at_ms, callback=told)
        except (ClientError, KafkaError) as error:
            self._told(key, value, None, error)

    def _told(self, key: str | None, value: str, where: RecordMetadata | None, error: BaseException | None) -> None:
        if where is not None:
            self._acked += 1
            place = {"topic": where.topic, "partition": where.partition, "offset": where.offset}
            say_event("producer_send_success", key=key, value=value, **place)
        else:
            why = {"exception": type(error).__name__, "message": str(error)}
            say_event("producer_send_error", key=key, value=value, topic=self._topic, **why)

    def end(self, elapsed_s: float) -> None:
        say_event("shutdown_complete")
        rates = {"target_throughput": self._rate, "avg_throughput": self._acked / elapsed_s}
        say_event("tool_data", sent=self._sent, acked=self._acked, **rates)
