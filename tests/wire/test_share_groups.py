"""Share groups with the client that speaks their protocol, librdkafka."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer, ShareConsumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.cli.main import main
from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic as NewPenstockTopic
from penstock.client.messages import SHARE_COORDINATOR
from penstock.coordinator.share.records import SharePartitionKey
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import read_share_group_state as reading
from penstock.protocol.messages import read_share_group_state_summary as summing
from penstock.protocol.messages import write_share_group_state as writing
from penstock.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateData,
    PartitionData,
)
from penstock.testing import Cluster

MOST_POLLS = 500
CONFIG = {
    "group.share.min.heartbeat.interval.ms": "50",
    "group.share.heartbeat.interval.ms": "50",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.session.timeout.ms": "500",
    "group.share.session.timeout.ms": "500",
}
"""A member whose last word is lost, as its connection ends with it, is out soon."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def node(directory: Path) -> Iterator[str]:
    with Cluster(config=CONFIG, directory=directory) as cluster:
        yield cluster.bootstrap_servers


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def groups(node: str, *arguments: str) -> Any:
    return json.loads(run("groups", *arguments, "--bootstrap-server", node, "--json"))


@pytest.fixture
def records(node: str, topic: str) -> str:
    """A topic with ten records in each of its two partitions."""
    admin = AdminClient({"bootstrap.servers": node})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result()
    producer = Producer({"bootstrap.servers": node})
    for number in range(20):
        producer.produce(topic, str(number), partition=number % 2)
    producer.flush()
    return topic


def until(found: Callable[[], Any], consumer: ShareConsumer | None = None) -> Any:
    for _ in range(MOST_POLLS):
        result = found()
        if result:
            return result
        if consumer is not None:
            consumer.poll(0.02)
    pytest.fail("it does not come to that")


def test_a_member_joins_has_what_has_begun_and_leaves(node: str, records: str) -> None:
    group = f"workers-{records}"
    consumer = ShareConsumer({"bootstrap.servers": node, "group.id": group})
    consumer.subscribe([records])

    def has_all() -> Any:
        listed = [one["group"] for one in groups(node, "--list", "--type", "share")]
        if group not in listed:
            return None
        members = groups(node, "--describe", "--group", group, "--members")
        return next((member for member in members if member["partitions"] == 2), None)

    member = until(has_all, consumer)
    assert member["client_id"] == "rdkafka"
    (state,) = groups(node, "--describe", "--group", group, "--state")
    assert (state["state"], state["assignment_strategy"], state["members"]) == ("Stable", "simple", 1)
    rows = groups(node, "--describe", "--group", group)
    assert [row["partition"] for row in rows] == [0, 1]
    consumer.close()
    until(lambda: groups(node, "--describe", "--group", group, "--state")[0]["members"] == 0)
    (state,) = groups(node, "--describe", "--group", group, "--state")
    assert state["state"] == "Empty"
    run("groups", "--delete", "--group", group, "--bootstrap-server", node)
    assert group not in [one["group"] for one in groups(node, "--list", "--type", "share")]


def test_a_group_is_made_moved_and_forgets(node: str, records: str, directory: Path) -> None:
    group = f"moved-{records}"
    reset = ("--reset-offsets", "--group", group, "--execute")
    groups(node, *reset, "--type", "share", "--topic", records, "--to-earliest")
    rows = groups(node, "--describe", "--group", group, "--verbose")
    assert [(row["start_offset"], row["lag"], row["leader_epoch"]) for row in rows] == [(0, 10, 0), (0, 10, 0)]
    assert all(row["oldest_waits_ms"] >= 0 and row["in_flight"] is None for row in rows), "nobody fetches"
    groups(node, *reset, "--topic", f"{records}:1", "--to-offset", "7")
    assert [row["lag"] for row in groups(node, "--describe", "--group", group)] == [10, 3]
    exported = run("groups", *reset, "--all-topics", "--to-current", "--export", "--bootstrap-server", node)
    assert exported.split() == [f"{records},0,0", f"{records},1,7"]
    deleted = groups(node, "--delete-offsets", "--group", group, "--topic", records)
    assert {row["status"] for row in deleted} == {"deleted"}
    assert groups(node, "--describe", "--group", group) == []
    logs = {one.parent.name: one for one in directory.rglob("*.log") if one.stat().st_size}
    dumped = "".join(
        run("dump-log", "--files", str(path), "--share-group-state-decoder", "--json")
        for name, path in logs.items()
        if name.startswith("__share_group_state")
    )
    assert '"share_snapshot"' in dumped
    assert f'"group": "{group}"' in dumped
    of_groups = "".join(
        run("dump-log", "--files", str(path), "--offsets-decoder", "--json")
        for name, path in logs.items()
        if name.startswith("__consumer_offsets")
    )
    assert '"share_group_state_partition_metadata"' in of_groups
    assert '"initializingTopics"' in of_groups


class States:
    """The first partition of a topic as one group reads it, asked over sockets."""

    def __init__(self, admin: Admin, topic_id: UUID) -> None:
        self.admin, self.topic_id = admin, topic_id
        self.key = SharePartitionKey("workers", topic_id, 0).text

    async def _ask(self, request: Any, answer: Any) -> Any:
        async def attempt() -> Any:
            found = await self.admin.cluster.to_coordinator(self.key, request, answer, key_type=SHARE_COORDINATOR)
            (topic,) = found.results
            (one,) = topic.partitions
            if one.error_code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
                raise KafkaError(one.error_code)
            return one

        return await self.admin.cluster.retrying(attempt)

    async def initialize(self) -> Any:
        data = InitializeStateData(
            topic_id=self.topic_id, partitions=[PartitionData(partition=0, state_epoch=1, start_offset=0)]
        )
        request = InitializeShareGroupStateRequest(group_id="workers", topics=[data])
        return await self._ask(request, InitializeShareGroupStateResponse)

    async def write(self, offset: int) -> Any:
        batch = writing.StateBatch(first_offset=offset, last_offset=offset, delivery_state=2, delivery_count=1)
        data = writing.PartitionData(partition=0, state_epoch=1, delivery_complete_count=1, state_batches=[batch])
        topics = [writing.WriteStateData(topic_id=self.topic_id, partitions=[data])]
        request = writing.WriteShareGroupStateRequest(group_id="workers", topics=topics)
        return await self._ask(request, writing.WriteShareGroupStateResponse)

    async def read(self) -> Any:
        data = reading.ReadStateData(topic_id=self.topic_id, partitions=[reading.PartitionData(partition=0)])
        request = reading.ReadShareGroupStateRequest(group_id="workers", topics=[data])
        return await self._ask(request, reading.ReadShareGroupStateResponse)

    async def summary(self) -> Any:
        data = summing.ReadStateSummaryData(topic_id=self.topic_id, partitions=[summing.PartitionData(partition=0)])
        request = summing.ReadShareGroupStateSummaryRequest(group_id="workers", topics=[data])
        return await self._ask(request, summing.ReadShareGroupStateSummaryResponse)


def test_a_share_coordinator_tells_after_a_restart_what_was_written(tmp_path: Path) -> None:
    """From a log that began anew behind what the last snapshot says."""
    config = {
        "share.coordinator.snapshot.update.records.per.snapshot": "2",
        "share.coordinator.state.topic.prune.interval.ms": "10",
    }

    async def written(address: str) -> None:
        async with Admin(address) as admin:
            await admin.topics.create(NewPenstockTopic(name="jobs", partitions=1))
            await admin.cluster.refresh()
            states = States(admin, (await topic_ids(admin))["jobs"])
            with pytest.raises(KafkaError, match="group:topicId:partition"):
                await admin.cluster.coordinator("nonsense", SHARE_COORDINATOR)
            assert (await states.initialize()).error_code == 0
            for offset in range(0, 14, 2):
                assert (await states.write(offset)).error_code == 0

    async def told(address: str) -> None:
        async with Admin(address) as admin:
            await admin.cluster.refresh()
            states = States(admin, (await topic_ids(admin))["jobs"])
            found = await states.read()
            assert [batch.first_offset for batch in found.state_batches] == list(range(0, 14, 2))
            assert (await states.summary()).delivery_complete_count == 1

    with Cluster(config=config, directory=tmp_path) as cluster:
        asyncio.run(written(cluster.bootstrap_servers))
    with Cluster(config=config, directory=tmp_path) as cluster:
        asyncio.run(told(cluster.bootstrap_servers))


async def topic_ids(admin: Admin) -> dict[str, UUID]:
    return {name: topic.topic_id for name, topic in admin.cluster.metadata.topics.items()}
