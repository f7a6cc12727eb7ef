"""Who coordinates a key: what `find` and `coordinator` say in each state of its partition."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
from tests.unit.coordinator.tally import Tally
from tests.unit.node.group_node import OFFSETS_ID, GroupNode

from penstock.metadata.image import PartitionImage
from penstock.metadata.records import (
    BrokerRegistrationChangeRecord,
    NodeEndpoint,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from penstock.metadata.topics import TopicImage
from penstock.node.coordinators.host import KEYS_OF_ONE_PARTITION, CoordinatorHost
from penstock.node.partitions.partition import Partition
from penstock.protocol.compression import Compression
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.hashing import coordinator_partition
from penstock.protocol.internal_topics import CONSUMER_OFFSETS

NOT_COORDINATOR, LOADING = ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
KEYS = ("a", "b")
"""Of partition 1 and of partition 0."""


class Tallies(CoordinatorHost[Tally]):
    key_type = 7


class World:
    """A node that leads both partitions of the topic, and a host beside that of groups."""

    def __init__(self, path: Path, patience_ms: int = 10_000) -> None:
        self.node = GroupNode(path)
        self.asked_for: list[int] = []
        self.is_full = False
        self.may_lead = True
        context = self.node.groups.context.replace(hold_missing=self.hold, may_lead=lambda _: self.may_lead)
        self.host = Tallies(CONSUMER_OFFSETS, context, lambda _: Tally(), Compression.NONE, patience_ms)
        self.missing: dict[int, Partition] = {}

    def hold(self, topic: TopicImage, index: int) -> Partition | None:
        self.asked_for.append(index)
        if self.is_full:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        if index in self.missing:
            self.node.table.held[CONSUMER_OFFSETS, index] = self.missing.pop(index)
        return self.node.table.get(CONSUMER_OFFSETS, index)

    async def serving(self) -> "World":
        self.node.create_offsets_topic()
        self.host.start()
        while self.host.is_loading:
            await asyncio.sleep(0)
        return self

    def find(self, key: str = "a") -> Any:
        try:
            return self.host.find(key).partition.index
        except KafkaError as error:
            return error.code

    def tell(self, *records: Any) -> None:
        for record in records:
            self.node.broker.image.apply(record)
        self.host.on_metadata(records)

    async def stop(self) -> None:
        await self.host.stop()
        await self.node.stop()


async def test_a_key_is_found_where_its_partition_is_led_and_read(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.node.create_offsets_topic()
    world.host.start()
    assert [world.find(key) for key in KEYS] == [LOADING, LOADING]
    assert [world.host.is_loading_for(key) for key in KEYS] == [True, True]
    with pytest.raises(KafkaError):
        world.host.all_serving()
    await world.host.loaded(KEYS)
    assert [world.find(key) for key in KEYS] == [1, 0]
    assert not any(world.host.is_loading_for(key) for key in KEYS)
    assert world.host.all_serving() == world.host.serving()
    hosted = world.host.find("a")
    hosted.pause()
    assert [world.find(key) for key in KEYS] == [NOT_COORDINATOR, 0]
    hosted.go_on()
    world.may_lead = False
    assert world.find() == NOT_COORDINATOR
    world.may_lead = True
    assert world.find() == 1
    await world.stop()


async def test_a_partition_that_others_lead_is_not_asked_for(tmp_path: Path) -> None:
    world = await World(tmp_path).serving()
    world.tell(PartitionChangeRecord(partition_id=1, topic_id=OFFSETS_ID, leader=2))
    assert [world.find(key) for key in KEYS] == [NOT_COORDINATOR, 0], "though the partition has not followed"
    assert world.asked_for == []
    await world.stop()


@pytest.mark.parametrize("is_full", [True, False])
async def test_a_partition_whose_log_could_not_be_made_is_tried_again(tmp_path: Path, is_full: bool) -> None:
    world = World(tmp_path)
    world.node.create_offsets_topic()
    world.missing[1] = world.node.table.held.pop((CONSUMER_OFFSETS, 1))
    world.is_full = is_full
    world.host.start()
    assert world.find() == (NOT_AVAILABLE if is_full else LOADING)
    assert world.asked_for == [1]
    assert world.host.hosted(0) is not None
    assert (world.host.hosted(1) is None) is is_full
    await world.host.loaded(KEYS)
    assert [world.find(key) for key in KEYS] == [NOT_AVAILABLE if is_full else 1, 0]
    await world.stop()


@pytest.mark.parametrize("key", KEYS)
async def test_who_coordinates_is_told_with_an_address_for_the_listener(tmp_path: Path, key: str) -> None:
    world = await World(tmp_path).serving()
    assert world.host.coordinator(key, "PLAINTEXT")[0] == 1
    assert world.host.coordinator(key, "PLAINTEXT")[1].port == 9092
    with pytest.raises(KafkaError) as refused:
        world.host.coordinator(key, "OTHER")
    assert refused.value.code == NOT_AVAILABLE
    world.tell(
        RegisterBrokerRecord(broker_id=2, fenced=False, end_points=[NodeEndpoint(name="PLAINTEXT", host="h", port=7)]),
        *(PartitionChangeRecord(partition_id=it, topic_id=OFFSETS_ID, leader=2) for it in range(2)),
    )
    assert world.host.coordinator(key, "PLAINTEXT")[0] == 2
    world.tell(BrokerRegistrationChangeRecord(broker_id=2, fenced=1))
    with pytest.raises(KafkaError):
        world.host.coordinator(key, "PLAINTEXT")
    world.tell(*(PartitionChangeRecord(partition_id=it, topic_id=OFFSETS_ID, leader=-1) for it in range(2)))
    with pytest.raises(KafkaError):
        world.host.coordinator(key, "PLAINTEXT")
    await world.stop()


async def test_without_its_topic_one_creation_is_under_way_while_it_runs(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert world.find() == NOT_AVAILABLE
    assert world.host._creating is None, "it does not run"
    world.host.start()
    assert (world.find(), world.find()) == (NOT_AVAILABLE, NOT_AVAILABLE)
    await asyncio.sleep(0)
    assert len(world.node.controller.commands) == 1
    assert not world.host.is_loading_for("a")
    await world.stop()
    assert world.host._creating is None


async def test_a_lead_is_waited_for_in_its_epoch_or_a_later_one_and_not_for_ever(tmp_path: Path) -> None:
    world = World(tmp_path, patience_ms=5)
    world.host.start()
    assert not await world.host.taken_over(0, 0)
    await world.serving()
    assert await world.host.taken_over(0, 0)
    assert not await world.host.taken_over(0, 1)
    world.host._patience_s = 60.0
    later = asyncio.ensure_future(world.host.taken_over(0, 1))
    await asyncio.sleep(0)
    world.node.table.held[CONSUMER_OFFSETS, 0].obey(1, PartitionImage(1, 2, 2, (1,), (1,)), 0)
    world.tell(PartitionChangeRecord(partition_id=0, topic_id=OFFSETS_ID, leader=1))
    assert await later
    await world.stop()
    assert world.host.serving() == []


@pytest.mark.parametrize("change", ["removed from the table", "not led", "another topic"])
async def test_what_is_led_no_more_is_left_with_the_next_record_of_the_topic(tmp_path: Path, change: str) -> None:
    world = await World(tmp_path).serving()
    partition = world.node.table.held[CONSUMER_OFFSETS, 1]
    if change == "removed from the table":
        del world.node.table.held[CONSUMER_OFFSETS, 1]
    else:
        partition.obey(1, PartitionImage(2, 1, 1, (1, 2), (1, 2)), 0)
    concerns = change != "another topic"
    if not concerns:
        world.node.create_flights()
    topic_id = OFFSETS_ID if concerns else world.node.broker.image.topics["flights"].topic_id
    world.tell(PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1]))
    assert (world.host.hosted(1) is None) is concerns
    world.host.on_new_image()
    assert world.host.hosted(1) is None
    assert world.host.hosted(0) is not None
    await world.stop()


@pytest.mark.parametrize(
    ("partitions", "keys", "found"),
    [
        (1, 1, True),
        (1, KEYS_OF_ONE_PARTITION + 1, True),
        (1, 0, False),
        (2, 1, True),
        (2, KEYS_OF_ONE_PARTITION, True),
        (2, KEYS_OF_ONE_PARTITION + 1, False),
    ],
)
async def test_many_keys_are_looked_for_where_all_lie_in_one_partition(
    tmp_path: Path, partitions: int, keys: int, found: bool
) -> None:
    """Where there are several, many lie in more than one, and nobody hashes them all to know."""
    node = GroupNode(tmp_path)
    node.create_offsets_topic((1,) * partitions)
    departure: Any = object()
    node.groups.departures[0] = departure
    named = (name for number in itertools.count() if coordinator_partition(name := f"{number}", partitions) == 0)
    assert node.groups.departure_of(list(itertools.islice(named, keys))) is (departure if found else None)
    assert node.groups.departure_of(KEYS) is (departure if partitions == 1 else None)
    await node.stop()
