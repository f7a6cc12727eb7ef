"""What is meant to fill the console's memory: a record of 100 MB, and of eight tabs one that reads nothing."""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final

import psutil
import pytest
from aiohttp import ClientSession
from tests.cluster.console_browser import event
from tests.cluster.started import environment

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.producer import Producer
from penstock.client.settings import ProducerSettings
from penstock.testing import Cluster

pytestmark = pytest.mark.soak

HUGE: Final = 100_000_000
MB: Final = 1_000_000
AT_REST_MB: Final = 150
PEAK_MB: Final = 200
"""A look at a huge record: its frame, of which the rest are views."""
SENT: Final = 8_000
TABS: Final = 8


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    config = {"message.max.bytes": str(2 * HUGE), "socket.request.max.bytes": str(2 * HUGE)}
    with Cluster(config=config) as cluster:
        yield cluster


@pytest.fixture
def console(cluster: Cluster) -> Iterator[tuple[str, psutil.Process]]:
    words = ["console", "--listen", "127.0.0.1:0", "--bootstrap-server", cluster.bootstrap_servers]
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", *words], stdout=subprocess.PIPE, text=True, env=environment()
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[2], psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def memory_mb(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / MB


def peak_mb(process: psutil.Process) -> float:
    with open(f"/proc/{process.pid}/status", encoding="utf-8") as status:
        return next(int(line.split()[1]) * 1024 / MB for line in status if line.startswith("VmHWM"))


async def got(session: ClientSession, url: str) -> tuple[int, bytes]:
    """How long an answer was, and its beginning."""
    async with session.get(url) as answer:
        assert answer.status == 200, await answer.text()
        length, begin = 0, b""
        async for part in answer.content.iter_chunked(MB):
            length += len(part)
            begin = begin or part
        return length, begin


async def test_a_record_of_100_mb(cluster: Cluster, console: tuple[str, psutil.Process]) -> None:
    url, process = console
    async with Admin(cluster.bootstrap_servers) as admin:
        await admin.topics.create(NewTopic(name="huge", partitions=1, configs={"max.message.bytes": str(2 * HUGE)}))
    settings = ProducerSettings(max_request_size=2 * HUGE, buffer_memory=3 * HUGE)
    async with Producer(cluster.bootstrap_servers, settings) as producer:
        for value in (b"before", b"x" * HUGE, b"behind"):
            await producer.send_and_wait("huge", value)
    async with ClientSession() as session:
        _, listed = await got(session, f"{url}/api/records?topic=huge")
        values: list[Any] = [row["value"] for row in json.loads(listed)["records"]]
        assert [(value["size"], value["cut"]) for value in values] == [(6, False), (HUGE, True), (6, False)]
        _, found = await got(session, f"{url}/api/records?topic=huge&where=value=='behind'")
        assert (len(json.loads(found)["records"]), json.loads(found)["passed_over"]) == (1, 1)
        assert (await got(session, f"{url}/api/export?topic=huge&place=earliest"))[0] > HUGE
        shown, _ = await got(session, f"{url}/api/value?topic=huge&partition=0&offset=1")
        assert shown < 2 * MB
        assert (await got(session, f"{url}/api/value?topic=huge&partition=0&offset=1&as=file"))[0] == HUGE
    assert peak_mb(process) < PEAK_MB
    assert memory_mb(process) < AT_REST_MB


async def test_of_eight_tabs_one_that_reads_nothing(cluster: Cluster, console: tuple[str, psutil.Process]) -> None:
    url, process = console
    async with Admin(cluster.bootstrap_servers) as admin:
        await admin.topics.create(NewTopic(name="watched", partitions=1))
    host, port = url.removeprefix("http://").split(":")
    stalled = socket.socket()
    stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    stalled.connect((host, int(port)))
    stalled.sendall(b"GET /api/tail?topic=watched HTTP/1.1\r\nHost: localhost\r\n\r\n")
    async with ClientSession(read_bufsize=8 * MB) as session, Producer(cluster.bootstrap_servers) as producer:

        async def watch() -> int:
            async with session.get(f"{url}/api/tail?topic=watched") as tail:
                assert await event(tail) == []
                begun.release()
                seen = 0
                while seen < SENT:
                    seen += len(await event(tail))
                return seen

        begun = asyncio.Semaphore(0)
        watching = [asyncio.create_task(watch()) for _ in range(TABS - 1)]
        for _ in watching:
            await begun.acquire()
        before_mb = memory_mb(process)
        for number in range(SENT):
            await producer.send("watched", b"%d" % number + b"x" * 5_000)
        await producer.flush()
        assert await asyncio.gather(*watching) == [SENT] * (TABS - 1)
    assert memory_mb(process) < before_mb + 60
    stalled.close()
