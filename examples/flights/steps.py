"""The steps of the demo, each a function that does one thing over the wire."""

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from examples.flights.data import FlightRecord
from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.client.settings import ConsumerSettings, ProducerSettings
from penstock.pipeline.running.progress import BatchProgress
from penstock.pipeline.running.run import PipelineResult, run_pipeline
from penstock.pipeline.spec.files import load_spec
from penstock.pipeline.spec.pipeline import PipelineSpec

FLIGHTS, DELAYS, GROUP = "flights", "delays", "delay-readers"
PARTITIONS = 4
FOR_EVER = {"retention.ms": "-1"}
"""The flights are of 2013: with the default of seven days the broker would rightly delete them."""
PIPELINE = Path(__file__).with_name("delays.yaml")
BATCH_BYTES = 262_144
Tell = Callable[[int], None]


async def create_topics(address: str) -> None:
    """Create both topics."""
    async with Admin(address) as admin:
        for name in (FLIGHTS, DELAYS):
            await admin.topics.create(NewTopic(name=name, partitions=PARTITIONS, configs=FOR_EVER))


async def produce(address: str, records: list[FlightRecord], tell: Tell) -> None:
    """Produce in order; return when each record is acknowledged."""
    settings = ProducerSettings(batch_size=BATCH_BYTES, linger_ms=20)
    async with Producer(address, settings) as producer:
        for number, record in enumerate(records, 1):
            sent = await producer.send(FLIGHTS, record.value, key=record.key, timestamp_ms=record.timestamp_ms)
            if number % 1000 == 0:
                tell(1000)
        await producer.flush()
        await sent
        tell(len(records) % 1000)


def pipeline_spec(address: str, directory: Path) -> PipelineSpec:
    """The pipeline of `delays.yaml`, on this cluster and in this directory."""
    spec = load_spec(PIPELINE).with_bootstrap_servers(address)
    sinks = tuple(
        sink.replace(options={**sink.options, "path": str(parquet(directory))}) if "path" in sink.options else sink
        for sink in spec.sinks
    )
    return spec.replace(sinks=sinks, checkpoint=str(directory / "checkpoints"))


def run_spark(spec: PipelineSpec, directory: Path, on_progress: Callable[[BatchProgress], None]) -> PipelineResult:
    """Run the pipeline over all that is in the topic."""
    return run_pipeline(spec, on_progress, master="local[2]", log_file=directory / "spark.log")


async def read_delays(address: str, tell: Tell) -> pd.DataFrame:
    """Read the topic `delays` to its end, as a member of a consumer group."""
    rows: list[dict[str, object]] = []
    settings = ConsumerSettings(group_id=GROUP, auto_offset_reset="earliest", max_poll_records=10_000)
    async with Consumer(address, settings) as consumer:
        await consumer.subscribe([DELAYS])
        while not await at_end(consumer):
            records = await consumer.poll()
            rows += [json.loads(record.value) for record in records if record.value is not None]
            tell(len(records))
        await consumer.commit()
    return pd.DataFrame(rows)


async def at_end(consumer: Consumer) -> bool:
    """Whether every partition was read to its end."""
    lags = [consumer.lag(partition) for partition in consumer.assignment]
    return len(lags) == PARTITIONS and all(lag == 0 for lag in lags)


def parquet(directory: Path) -> Path:
    """Where the pipeline writes its Parquet files."""
    return directory / "delays.parquet"
