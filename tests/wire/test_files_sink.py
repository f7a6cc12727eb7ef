"""The files sink on a worker, over a real node: what is in no file yet is not committed."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.wire.test_connectors import LIMIT_S, Watched

from penstock.client.producer import Producer
from penstock.work.connect.api import SinkConnector
from penstock.work.connect.built_in.file_sink import FileStreamSinkTask
from penstock.work.connect.runtime.supervisor import RunState


@pytest.fixture
async def worker(bootstrap: str, tmp_path: Path) -> AsyncIterator[Watched]:
    worker = Watched(bootstrap, tmp_path)
    yield worker
    await worker.stop()


async def write(bootstrap: str, topic: str, start: int, stop: int) -> None:
    async with Producer(bootstrap) as producer:
        for number in range(start, stop):
            await producer.send(topic, json.dumps({"n": number}).encode(), partition=0)


def sink(topic: str, folder: Path, size: int) -> dict[str, str]:
    return {
        "name": topic,
        "connector.class": "penstock.FilesSink",
        "topics": topic,
        "store.url": str(folder),
        "format": "json",
        "flush.size": str(size),
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
        "transforms": "route",
        "transforms.route.type": "RegexRouter",
        "transforms.route.regex": ".*",
        "transforms.route.replacement": "routed",
    }


async def files(folder: Path, count: int) -> dict[str, list[int]]:
    async with asyncio.timeout(LIMIT_S):
        while len(paths := sorted((folder / "topics/routed/partition=0").glob("*.json"))) < count:
            await asyncio.sleep(0)
    return {path.name: [json.loads(line)["n"] for line in path.read_text().splitlines()] for path in paths}


async def test_what_is_in_no_file_comes_again(worker: Watched, bootstrap: str, topic: str, tmp_path: Path) -> None:
    await write(bootstrap, topic, 0, 8)
    await worker.start(sink(topic, tmp_path, 3))
    assert list((await files(tmp_path, 2)).values()) == [[0, 1, 2], [3, 4, 5]]
    await worker.start(sink(topic, tmp_path, 2))  # it has ended before it begins anew
    assert await files(tmp_path, 3) == {
        f"{topic}+0+{first:020}.json": numbers for first, numbers in ((0, [0, 1, 2]), (3, [3, 4, 5]), (6, [6, 7]))
    }


class TooFar(FileStreamSinkTask):
    """Says that it has more than it was given."""

    def flush(self, offsets):  # type: ignore[no-untyped-def]
        return {partition: to._replace(offset=to.offset + 1) for partition, to in offsets.items()}


class TooFarSink(SinkConnector):
    task_class = TooFar


async def test_a_sink_cannot_commit_what_it_was_not_given(worker: Watched, bootstrap: str, topic: str) -> None:
    await write(bootstrap, topic, 0, 1)
    await worker.start({"name": topic, "connector.class": f"{__name__}:TooFarSink", "topics": topic})
    assert "positions of partitions that it was given are needed" in await worker.until(f"{topic}-0", RunState.FAILED)
