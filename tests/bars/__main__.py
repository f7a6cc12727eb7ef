"""What a large cluster does to a page of figures, to neighbours and to the console: `python -m tests.bars`.

The machine has to be calm. One node has TOPICS topics of PARTITIONS partitions, each with a record, and GROUPS groups.
A bar that is not met has an exclamation mark. It takes a quarter of an hour, most of which the node has to itself.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import statistics
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil
from bench.process import free_ports, penstock_command, running_node
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from playwright.sync_api import expect
from tests.cluster.console_shown import console
from tests.cluster.real_browser import chromium, why_none
from tests.slices.together import round_trips_ms

from penstock.client.admin import Admin
from penstock.client.producer import Producer
from penstock.client.settings import ProducerSettings
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.log.retention import CHECK_INTERVAL_MS

TOPICS, PARTITIONS, GROUPS = 10_000, 10, 2_000
AT_ONCE: Final = 500
WAIT_S: Final = 600
SCRAPES: Final = 5
NEVER_MS: Final = 24 * 3_600_000
BESIDE_S: Final = 20
BEGINS_S: Final = 20
"""A page's first looks at a cluster are over then."""
LOOKED_S: Final = 40
FIRST_LOOK_S: Final = 2 * CHECK_INTERVAL_MS / 1000 + 30
"""So long after it was filled the node has looked after each log once, which is not what a page costs: these looks are
spread over an interval, and begin after one.
"""
MB: Final = 1_000_000
SAID_S: Final = 5.0
"""How often it says how far it is."""


def say(what: str, found: float, unit: str, bar: float) -> None:
    print(f"{'  ' if found <= bar else '! '}{what}: {found:.3g} {unit} (at most {bar:g})", flush=True)


class Steps:
    """Says how far it is and how long the last step took."""

    def __init__(self) -> None:
        self._began_s = self._last_s = time.perf_counter()

    def say(self, what: str, at_least_s: float = 0) -> None:
        now_s = time.perf_counter()
        if now_s - self._last_s >= at_least_s:
            print(f"  … {what} after {now_s - self._began_s:.0f} s (+{now_s - self._last_s:.1f})", flush=True)
            self._last_s = now_s


async def fill(bootstrap: str, topics: int) -> None:
    """By our own client, which asks for metadata of what it needs; librdkafka asks for all of it again and again."""
    names = [f"topic-{number:05d}" for number in range(topics)]
    parts = [names[first : first + AT_ONCE] for first in range(0, topics, AT_ONCE)]
    steps = Steps()
    await asyncio.to_thread(create, bootstrap, parts, steps)
    async with Producer(bootstrap, ProducerSettings(linger_ms=100)) as producer:
        for part in parts:
            await producer.cluster.refresh(part)
            for name in part:
                for index in range(PARTITIONS):
                    await producer.send(name, b"a record", partition=index)
            await producer.flush()
            steps.say(f"records up to {part[-1]}", at_least_s=SAID_S)
    steps.say("a record in each partition")
    async with Admin(bootstrap) as admin:
        for first in range(0, GROUPS, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, GROUPS))
            for number in numbers:
                offsets = {
                    TopicPartition(names[number % topics], index): OffsetAndMetadata(0) for index in range(PARTITIONS)
                }
                await admin.groups.set_offsets(f"group-{number:04d}", offsets)
            steps.say(f"{numbers[-1] + 1:,} of {GROUPS:,} groups")


def create(bootstrap: str, parts: Sequence[Sequence[str]], steps: Steps) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for number, part in enumerate([*parts, ["quiet"]], 1):
        new = [NewTopic(name, 1 if name == "quiet" else PARTITIONS, 1) for name in part]
        for future in admin.create_topics(new, operation_timeout=WAIT_S, request_timeout=WAIT_S).values():
            future.result(WAIT_S)
        steps.say(f"{number} of {len(parts) + 1} requests for topics", at_least_s=SAID_S)


def scraped(port: int) -> tuple[float, bytes]:
    """Seconds, and the page as it comes."""
    request = urllib.request.Request(f"http://localhost:{port}/metrics", headers={"Accept-Encoding": "gzip"})
    began = time.perf_counter()
    with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
        page: bytes = answer.read()
    return time.perf_counter() - began, page


def p99(found: Sequence[float]) -> float:
    return found[len(found) * 99 // 100]


def of_metrics(address: str, port: int) -> None:
    found = [scraped(port) for _ in range(SCRAPES)]
    say("a scrape", min(seconds for seconds, _ in found), "s", 1)
    page = found[-1][1]
    say("its page, packed", len(page) / MB, "MB", 5)
    print(f"  {len(gzip.decompress(page)) / MB:.3g} MB unpacked")
    print(f"  a neighbour's p99 with nobody beside it: {p99(round_trips_ms(address, BESIDE_S / 2)):.1f} ms")
    is_over = threading.Event()

    def scrape() -> None:
        while not is_over.is_set():
            scraped(port)

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        say("a neighbour's p99 beside scrapes, one after the other", p99(round_trips_ms(address, BESIDE_S)), "ms", 20)
    finally:
        is_over.set()
        thread.join()


def in_seconds(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def cpu_shares(*processes: psutil.Process) -> list[float]:
    """Of a core, while some seconds go by."""
    before, began = [sum(one.cpu_times()[:2]) for one in processes], time.perf_counter()
    time.sleep(LOOKED_S)
    took_s = time.perf_counter() - began
    return [(sum(one.cpu_times()[:2]) - was) / took_s for one, was in zip(processes, before, strict=True)]


def of_console(bootstrap: str, topics: int, broker: psutil.Process) -> None:
    (idle_share,) = cpu_shares(broker)
    print(f"  the broker by itself: {100 * idle_share:.3g} % of a core", flush=True)
    with console("--bootstrap-server", bootstrap) as (url, process), chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(WAIT_S * 1000)
        expect.set_options(timeout=WAIT_S * 1000)
        rows = page.get_by_role("region", name="Topics").get_by_role("row")

        def first_rows() -> None:
            page.goto(f"{url}/#/topics")
            expect(rows.nth(1)).to_be_visible()

        say("first rows, of a console that has just begun", in_seconds(first_rows), "s", 1)
        expect(page.get_by_text(f"{topics + 1:,} topics")).to_be_visible()
        page.goto("about:blank")
        say("first rows", in_seconds(first_rows), "s", 1)
        searched = []
        for number in range(0, min(topics, 1000), 97):
            ask = f"{url}/api/topics?q=topic-{number:05d}&limit=100"
            searched.append(in_seconds(lambda ask=ask: json.load(urllib.request.urlopen(ask))) * 1000)  # type: ignore[misc]
        say("a search", statistics.median(searched), "ms", 200)
        for name in ("topics", "groups"):
            page.goto(f"{url}/#/{name}")
            expect(page.locator("table tbody tr").nth(30)).to_be_visible()
            say(f"elements in the list of {name}", page.locator("main table *").count(), "", 500)
        for name in ("", "topics", "groups"):
            page.goto(f"{url}/#/{name}")
            time.sleep(BEGINS_S)
            broker_share, own_share = cpu_shares(broker, process)
            say(
                f"what an open page of {name or 'all'} costs the broker",
                100 * (broker_share - idle_share),
                "% of a core",
                1,
            )
            say("and the console itself", 100 * own_share, "% of a core", 3)
        say("the console's memory", process.memory_info().rss / MB, "MB", 250)


def main(topics: int) -> None:
    metrics_port, controller_port = free_ports(2)

    def command(
        directory: Path, port: int, settings: Mapping[str, str]
    ) -> tuple[Sequence[str], Mapping[str, str] | None]:
        both = {
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "penstock.metrics.listener": f":{metrics_port}",
        }
        return penstock_command(directory, port, both | dict(settings))

    settings = {"offsets.topic.num.partitions": "10", "log.retention.check.interval.ms": str(NEVER_MS)}
    with running_node(settings, command) as node:
        took_s = in_seconds(lambda: asyncio.run(fill(node.address, topics)))
        print(f"  {topics * PARTITIONS:,} partitions in {took_s:.0f} s")
        print(f"  the node has {node.resident_mb:.0f} MB; pages wait for its first look after each log", flush=True)
        time.sleep(FIRST_LOOK_S)
        if (reason := why_none()) is None:
            of_console(node.address, topics, psutil.Process(node.pid))
        else:
            print(f"  nothing of the console: {reason}")
        of_metrics(node.address, metrics_port)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else TOPICS)
