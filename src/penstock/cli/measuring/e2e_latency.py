"""`penstock e2e-latency`: how long a record takes to its reader, with the options and lines of kafka-e2e-latency.sh."""

import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

import click

from penstock.cli.measuring.latencies import percentiles
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import declared, option
from penstock.cli.terminal.session import BOOTSTRAP_SERVER, read_properties, run, settings_from
from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.client.providers import KEY as PROVIDERS
from penstock.client.security import PREFIXES
from penstock.client.settings import ConsumerSettings, ProducerSettings
from penstock.client.values import ConsumedRecord
from penstock.protocol.value import Value

PATIENCE_MS: Final = 60_000
TELL_EVERY: Final = 1_000
SHARES: Final = (0.5, 0.99, 0.999)
OF_PRODUCERS: Final = ProducerSettings(client_id="e2e-latency", linger_ms=0)
OF_CONSUMERS: Final = ConsumerSettings(client_id="e2e-latency", fetch_max_wait_ms=0, enable_auto_commit=False)


class Shape(Value, kw_only=True):
    """Sizes in bytes."""

    record_size: int = option("Bytes of each record's value.", required=True, min=0)
    record_key_size: int = option("Bytes of the key; 0 for none.", min=0, default=0, show_default=True)
    num_headers: int = option("How many headers a record has.", min=0, default=0, show_default=True)
    record_header_key_size: int = option("Bytes of a header's name.", min=0, default=0, show_default=True)
    record_header_size: int = option("Bytes of a header's value; -1 for null.", min=-1, default=0, show_default=True)

    def record(self, random: Random) -> dict[str, Any]:
        key = _letters(random, self.record_key_size) if self.record_key_size else None
        headers = [self._header(random) for _ in range(self.num_headers)]
        return {"value": _letters(random, self.record_size), "key": key, "headers": headers}

    def _header(self, random: Random) -> tuple[str, bytes | None]:
        value = _letters(random, self.record_header_size) if self.record_header_size >= 0 else None
        return _letters(random, self.record_header_key_size).decode(), value


@click.command(short_help="measure how long a record takes from its producer to its consumer")
@declared
def command(
    bootstrap_server: str = BOOTSTRAP_SERVER,
    *,
    topic: str = option("The topic to send to and to read; made if it is not there.", required=True),
    num_records: int = option("How many records to send, one after the other.", required=True, min=1),
    producer_acks: str = option("Who must have a record: 1 or all.", type=click.Choice(["1", "all"]), required=True),
    shape: Shape,
    command_config: Path | None = option("A file with settings of the clients."),
) -> None:
    """Send records one by one, and measure how long each takes until it is read."""
    properties = read_properties(command_config)
    sends = settings_from(OF_PRODUCERS, _of(OF_PRODUCERS, properties), {"acks": producer_acks})
    reads = settings_from(OF_CONSUMERS, _of(OF_CONSUMERS, properties))

    async def work() -> None:
        async with Admin(bootstrap_server, sends) as admin:
            await _make(admin, topic)
        async with Consumer(bootstrap_server, reads) as consumer, Producer(bootstrap_server, sends) as producer:
            partitions = await consumer.partitions_for(topic)
            await consumer.assign(partitions)
            for partition, end in (await consumer.end_offsets(partitions)).items():
                consumer.seek(partition, end)
            random = Random(0)
            taken_ms = []
            for number in range(num_records):
                taken_ms.append(await _send_and_read(producer, consumer, topic, shape.record(random)))
                if number % TELL_EVERY == 0:
                    say(f"{number}\t{taken_ms[-1]}")
        say(f"Avg latency: {sum(taken_ms) / num_records:.4f} ms")
        half, most, nearly_all = percentiles([int(one) for one in taken_ms], SHARES)
        say(f"Percentiles: 50th = {half}, 99th = {most}, 99.9th = {nearly_all}")

    run(work())


async def _make(admin: Admin, topic: str) -> None:
    if topic not in await admin.topics.names():
        say(f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and replication factor = 1')
        await admin.topics.create(NewTopic(name=topic, partitions=1, replication_factor=1))
        await admin.topics.wait_until_led(topic)


async def _send_and_read(producer: Producer, consumer: Consumer, topic: str, record: Mapping[str, Any]) -> float:
    """How many ms it took. Raises click.ClickException if something else was read."""
    begun_s = time.perf_counter()
    await producer.send_and_wait(topic, **record)
    found = await consumer.poll(PATIENCE_MS)
    taken_ms = (time.perf_counter() - begun_s) * 1000
    if not found:
        raise click.ClickException(f"the record was not read within {PATIENCE_MS} ms")
    if len(found) > 1 or _told(found[0]) != record:
        raise click.ClickException(f"other records were read than the one that was sent: who else writes to {topic}?")
    return taken_ms


def _told(record: ConsumedRecord) -> dict[str, Any]:
    return {"value": record.value, "key": record.key, "headers": record.headers}


def _of(defaults: ProducerSettings | ConsumerSettings, properties: Mapping[str, str]) -> dict[str, str]:
    """One file is for both clients: each takes what it knows."""
    return {
        key: value
        for key, value in properties.items()
        if key.replace(".", "_") in defaults.__fields__ or key.startswith((*PREFIXES, PROVIDERS))
    }


def _letters(random: Random, size: int) -> bytes:
    return bytes([random.randrange(26) + ord("A")]) * size
