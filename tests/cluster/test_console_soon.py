"""How long a change takes until it is on the screen, in a real browser: printed, as the machine may be busy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.cluster.console_shown import console
from tests.cluster.real_browser import chromium, why_none

from penstock.client.admin import Admin
from penstock.client.admin.partitions import ElectionType
from penstock.client.admin.topics import NewTopic
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.client.settings import ConsumerSettings
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.testing import Cluster

pytestmark = [pytest.mark.soak, pytest.mark.skipif((reason := why_none()) is not None, reason=reason or "")]
WHERE = TopicPartition("seen", 0)
ROUNDS = 10
ANSWERED_MS = 60_000


def in_a_thread(work: Coroutine[Any, Any, float]) -> float:
    """Playwright has a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


@pytest.fixture(scope="module")
def shown() -> Iterator[tuple[Cluster, Page, str]]:
    async def fill() -> float:
        async with Admin(cluster.bootstrap_servers) as admin:
            await admin.topics.create(NewTopic(name="seen", assignments={0: [1, 2, 3]}))
            await admin.groups.set_offsets("readers", {WHERE: OffsetAndMetadata(0)})
        return 0.0

    with Cluster(nodes=3, process=True) as cluster:
        in_a_thread(fill())
        with console("--bootstrap-server", cluster.bootstrap_servers) as (url, _), chromium() as browser:
            page = browser.new_context(locale="en-US").new_page()
            expect.set_options(timeout=ANSWERED_MS)
            yield cluster, page, url


async def known(cluster: Cluster, holds: Callable[[Admin], Awaitable[bool]]) -> float:
    """When brokers say so."""
    async with Admin(cluster.bootstrap_servers) as admin, asyncio.timeout(ANSWERED_MS / 1000):
        while not await holds(admin):
            pass
        return time.monotonic()


def say(what: str, since_s: float) -> None:
    print(f"{what}: on the screen after {time.monotonic() - since_s:.2f} s (at most 2)")


def test_lag(shown: tuple[Cluster, Page, str]) -> None:
    cluster, page, url = shown

    async def write() -> float:
        async with Producer(cluster.bootstrap_servers) as producer:
            await producer.send_and_wait("seen", b"x")
            return time.monotonic()

    page.goto(f"{url}/#/group?name=readers")
    row = page.get_by_role("region", name="Offsets").get_by_role("row").filter(has_text="seen")
    for count in range(1, ROUNDS + 1):
        since_s = in_a_thread(write())
        expect(row.get_by_role("cell").nth(4)).to_have_text(str(count))
        say("lag", since_s)


def test_members(shown: tuple[Cluster, Page, str]) -> None:
    cluster, page, url = shown
    page.goto(f"{url}/#/group?name=joined")
    expect(page.get_by_role("alert")).to_be_visible()  # there is none yet

    async def join() -> float:
        async with Consumer(cluster.bootstrap_servers, ConsumerSettings(group_id="joined", client_id="me")) as consumer:
            await consumer.subscribe(["seen"])
            while not consumer.assignment:
                await consumer.poll(100)
            since_s = time.monotonic()
            await asyncio.to_thread(is_seen.result)
            return since_s

    with ThreadPoolExecutor(2) as pool:
        is_seen: Future[None] = Future()
        joined = pool.submit(asyncio.run, join())
        try:
            expect(page.get_by_role("region", name="Members").get_by_role("row").nth(1)).to_be_visible()
            seen_s = time.monotonic()
        finally:
            is_seen.set_result(None)
        print(f"member: on the screen after {seen_s - joined.result():.2f} s (at most 2)")


def test_isr_and_leader(shown: tuple[Cluster, Page, str]) -> None:
    cluster, page, url = shown
    page.goto(f"{url}/#/topic?name=seen")
    cells = page.get_by_role("region", name="Partitions").get_by_role("row").nth(1).get_by_role("cell")
    expect(cells.nth(3)).to_have_text("1, 2, 3")
    cluster.kill(1)

    async def row(admin: Admin) -> Any:
        return (await admin.topics.describe(["seen"]))[0].partitions[0]

    async def is_elsewhere(admin: Admin) -> bool:
        return bool((await row(admin)).leader in (2, 3))

    since_s = in_a_thread(known(cluster, is_elsewhere))
    expect(cells.nth(1)).to_have_text("2")
    expect(cells.nth(3)).not_to_contain_text("1")
    say("leader and ISR after a death", since_s)
    cluster.start()

    async def is_back(admin: Admin) -> bool:
        return len((await row(admin)).isr) == 3

    since_s = in_a_thread(known(cluster, is_back))
    expect(cells.nth(3)).to_contain_text("1")
    say("ISR", since_s)

    async def elect() -> float:
        async with Admin(cluster.bootstrap_servers) as admin:
            await admin.partitions.elect_leaders(ElectionType.PREFERRED, [WHERE])
            return time.monotonic()

    since_s = in_a_thread(elect())
    expect(cells.nth(1)).to_have_text("1")
    say("leader", since_s)
