"""The HTTP sink on a worker: records of a topic at a web server; what the task does is in `tests/unit`."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.work.connect.built_in.test_http_sink import Receiver
from tests.wire.test_connectors import LIMIT_S, Watched, read

from penstock.client.producer import Producer
from penstock.work.connect.runtime.supervisor import RunState


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    await receiver.server.start_server()
    yield receiver
    await receiver.server.close()


@pytest.fixture
async def worker(bootstrap: str, tmp_path: Path) -> AsyncIterator[Watched]:
    worker = Watched(bootstrap, tmp_path)
    yield worker
    await worker.stop()


def job(topic: str, url: str, **more: str) -> dict[str, str]:
    config = {"name": topic, "connector.class": "penstock.HttpSink", "topics": topic, "http.url": url}
    return config | {key.replace("_", "."): value for key, value in more.items()}


async def test_records_of_a_topic_are_sent_and_the_refused_are_kept(
    worker: Watched, receiver: Receiver, bootstrap: str, topic: str
) -> None:
    async with Producer(bootstrap) as producer:
        for value in (b"one", b"poison", b"three"):
            await producer.send(topic, value, partition=0)
    receiver.answers = [503]
    dead = {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": f"{topic}-dead"}
    await worker.start(job(topic, receiver.url, retry_backoff_ms="1", **dead))
    assert [record.value for record in await read(bootstrap, f"{topic}-dead", 1)] == [b"poison"]
    async with asyncio.timeout(LIMIT_S):
        while len(receiver.bodies) < 4:
            await asyncio.sleep(0)
    assert receiver.bodies == ["one", "one", "poison", "three"]


async def test_refused_records_that_nobody_tolerates_fail_the_task(
    worker: Watched, receiver: Receiver, bootstrap: str, topic: str
) -> None:
    async with Producer(bootstrap) as producer:
        await producer.send_and_wait(topic, b"poison")
    await worker.start(job(topic, receiver.url, task_restarts_max="0"))
    assert "the server said 400: answer 400" in await worker.until(f"{topic}-0", RunState.FAILED)
