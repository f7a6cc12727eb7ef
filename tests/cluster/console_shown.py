"""What the console's pages are shown of: topics, records, groups, names that strangers made up."""

import asyncio
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psutil
from tests.cluster.started import environment

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.client.settings import ConsumerSettings
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.pipeline.jobs.report import JobReport
from penstock.testing import Cluster

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "n", "type": "long"}, {"name": "<b>", "type": "string"}],
}
ADDRESSES = (
    ("", "Overview"),
    ("topics", "Topics"),
    ("group?name=reports", "reports"),
    ("topic?name=clicks", "clicks"),
    ("topic?name=clicks&tab=records", "clicks"),
    ("groups", "Groups"),
    ("moves", "Replicas"),
    ("security", "Security"),
    ("broker?id=1", "Broker 1"),
    ("topic?name=clicks&tab=consumers", "clicks"),
    ("topic?name=clicks&tab=configs", "clicks"),
    ("topic?name=clicks&tab=import", "clicks"),
    ("pipelines", "Pipelines"),
    ("connect", "Connect"),
    ("schemas", "Schemas"),
    ("schema?name=orders-value", "orders-value"),
)
"""Each page with its heading: `tests/unit/console/test_pages.py` says which one is missing."""
HOSTILE = '<img src=x onerror="document.title=1">\u202e\u3164gnp.exe\x07'
SHOWN = '<img src=x onerror="document.title=1">\\u{202e}\\u{3164}gnp.exe\\u{7}'


def run(work: Coroutine[Any, Any, None]) -> None:
    """In a thread: Playwright has a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()


async def fill(cluster: Cluster) -> None:
    async with Admin(cluster.bootstrap_servers) as admin, Producer(cluster.bootstrap_servers) as producer:
        await admin.topics.create(NewTopic(name="clicks", partitions=3, replication_factor=3))
        await admin.topics.create(NewTopic(name="moving", assignments={0: [1]}))
        await admin.topics.create(NewTopic(name="hostile", partitions=1, replication_factor=3))
        for number in range(40):
            value = b'{"click": %d, "id": 9007199254740993}' % number
            await producer.send("clicks", value, key=b"user-%d" % number, partition=0)
        await producer.send_and_wait(
            "hostile",
            HOSTILE.encode()[:-1],
            key=HOSTILE.encode()[:-1],
            headers=[("long" * 60, b"a value"), (HOSTILE, b"<b>")],
        )
        await admin.topics.create(NewTopic(name="orders", partitions=1))
        await admin.topics.create(NewTopic(name="imported", partitions=3))
        await admin.topics.create(NewTopic(name="by-schema", partitions=1))
        await admin.groups.set_offsets("reports", {TopicPartition("clicks", 0): OffsetAndMetadata(3)})
        await admin.groups.set_offsets(HOSTILE, {TopicPartition("hostile", 0): OffsetAndMetadata(0)})
        async with Consumer(cluster.bootstrap_servers, ConsumerSettings(group_id="readers")) as consumer:
            await consumer.subscribe(["moving"])
            while not consumer.assignment:
                await consumer.poll(100)


async def begin_a_move(cluster: Cluster) -> None:
    async with Admin(cluster.bootstrap_servers) as admin:
        (outcome,) = (await admin.partitions.reassign({TopicPartition("moving", 0): [1, 3]})).values()
    assert not outcome.error


def report(_: str) -> dict[str, Any]:
    """What a task of a pipeline says: one query has had a batch, one has failed."""
    said = JobReport(("late", "plain"), restarts=2, topics={"read": ["clicks"], "writes": {"plain": "orders"}})
    said.event({"event": "running"})
    figures = {"input_rows": 40, "output_rows": 30, "rows_per_second": 28.5, "lag": 7, "lags": {"clicks-0": 7}}
    said.event({"event": "batch", "query": "p: late", "duration_ms": 250, "began_ms": 1_750_000_000_000, **figures})
    said.event({"event": "failing", "query": "p: plain", "error": HOSTILE})
    return {"report": said.as_json(1)}


@contextmanager
def console(*options: str) -> Iterator[tuple[str, psutil.Process]]:
    """`penstock console`: where it is, and its process."""
    words = [sys.executable, "-m", "penstock", "console", "--listen", "127.0.0.1:0", *options]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[2], psutil.Process(process.pid)
    finally:
        process.terminate()
        assert process.wait(30) in (0, 143)
        process.stdout.close()
