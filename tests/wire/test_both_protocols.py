"""A group rolls from the classic protocol to that of KIP-848 and back, with clients that others wrote."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator

import pytest
from click.testing import CliRunner
from tests.wire.readers import CLASSIC, PARTITIONS, Librdkafka, Ours, Reader, shared_by

from penstock.cli.main import main
from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.testing import Cluster

CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
}


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    with Cluster(config=CONFIG) as cluster:
        run("features", "upgrade", "--feature", "group.version=1", "--bootstrap-server", cluster.bootstrap_servers)
        yield cluster.bootstrap_servers


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


async def kind_of(node: str, group_id: str) -> str:
    arguments = ("groups", "--list", "--json", "--bootstrap-server", node)
    rows = json.loads(await asyncio.to_thread(run, *arguments))
    return next(str(row["type"]) for row in rows if row["group"] == group_id)


@pytest.mark.parametrize("classic", CLASSIC.values(), ids=CLASSIC)
async def test_a_group_rolls_up_and_down(
    node: str, topic: str, classic: Callable[[str, str], Awaitable[Reader]]
) -> None:
    async with Admin(node) as admin:
        await admin.topics.create(NewTopic(name=topic, partitions=PARTITIONS))
        await admin.topics.wait_until_led(topic)
    one, two = await classic(node, topic), await classic(node, topic)
    await shared_by(one, two)
    assert await kind_of(node, topic) == "classic"
    first = Librdkafka(node, topic, "consumer")
    await shared_by(one, two, first)
    assert await kind_of(node, topic) == "consumer"
    await one.close()
    second = await Ours.start(node, topic, "consumer")
    await shared_by(two, first, second)
    await two.close()
    await shared_by(first, second)
    one = await classic(node, topic)
    await shared_by(one, first, second)
    await first.close()
    await shared_by(one, second)
    await second.close()
    await shared_by(one)
    assert await kind_of(node, topic) == "classic"
    two = await classic(node, topic)
    await shared_by(one, two)
    await asyncio.gather(one.close(), two.close())
