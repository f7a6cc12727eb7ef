"""A second host beside that of groups: it is found by its type of keys and by its topic, and hears of metadata."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest
from tests.unit.coordinator.tally import Tally
from tests.unit.node.group_node import GroupNode, partition_record

from penstock.client.connection import Connection
from penstock.log.config import LogConfig
from penstock.log.disk import Disk
from penstock.log.open_files import OpenFiles
from penstock.log.partition_log import PartitionLog
from penstock.log.removals import Removals
from penstock.metadata.image import PartitionImage
from penstock.metadata.records import RemoveTopicRecord, TopicRecord
from penstock.node.coordinators.coordinators import Coordinators, Later
from penstock.node.coordinators.departure import Departure
from penstock.node.coordinators.host import CoordinatorHost
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.partition import Partition
from penstock.protocol.compression import Compression
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import TRANSACTION_STATE

TOPIC_ID = UUID(int=9)


class Tallies(CoordinatorHost[Tally]):
    key_type = 1

    async def before_departure(self, partition: Partition) -> None:
        self.departing = partition

    def departure_from(self, partition: Partition, connect: Callable[[], Awaitable[Connection]]) -> Departure:
        self.connect: object = connect
        return super().departure_from(partition, connect)


def partition_in(directory: Path) -> Partition:
    disk = Disk()
    directory.mkdir()
    log = PartitionLog(OpenFiles(disk, 10), Removals(disk), str(directory), TRANSACTION_STATE, 0, LogConfig())
    partition = IsrPartition(log, TOPIC_ID)
    partition.obey(1, PartitionImage(1, 0, 0, (1,), (1,)), 0)
    return partition


async def test_hosts_stand_beside_each_other(tmp_path: Path) -> None:
    node = GroupNode(tmp_path)
    tallies = Tallies(TRANSACTION_STATE, node.groups.context, lambda _: Tally(), Compression.NONE, patience_ms=1_000)
    coordinators = Coordinators(node.groups, tallies)
    assert [coordinators.for_keys(key_type) for key_type in (0, 1, 2)] == [node.groups, tallies, None]
    coordinators.start()
    partition = node.table.held[TRANSACTION_STATE, 0] = partition_in(tmp_path / "log")
    records = [TopicRecord(name=TRANSACTION_STATE, topic_id=TOPIC_ID), partition_record(TOPIC_ID, 0, 1, (1,))]
    for record in records:
        node.broker.image.apply(record)
    coordinators.on_metadata(records)
    with pytest.raises(KafkaError) as loading:
        tallies.all_serving()
    assert loading.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    while tallies.is_loading:
        await asyncio.sleep(0)
    hosted = tallies.find("any key")
    assert tallies.all_serving() == [hosted]
    assert hosted.ask(hosted.machine.add, "a", 1) == 1
    assert node.groups.serving() == []
    await coordinators.before_departure(partition)
    assert tallies.departing is partition

    async def connect() -> None:
        """Not called before it is held."""

    departure = coordinators.departure_from(partition, connect)  # type: ignore[arg-type]
    assert departure is not None
    assert departure.hosted is hosted
    departure.end()
    assert tallies.connect is connect
    node.broker.image.apply(gone := RemoveTopicRecord(topic_id=TOPIC_ID))
    del node.table.held[TRANSACTION_STATE, 0]
    coordinators.on_metadata([gone])
    assert hosted.is_over
    with pytest.raises(KafkaError) as refused:
        tallies.find("any key")
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await coordinators.stop()
    partition.log.close()


class NotingHost:
    """Notes what it is told."""

    def __init__(self, topic_name: str, key_type: int) -> None:
        self.topic_name, self.key_type = topic_name, key_type
        self.told: list[object] = []

    def start(self) -> None:
        self.told.append("start")

    def on_metadata(self, records: object) -> None:
        self.told.append(records)

    def on_new_image(self) -> None:
        self.told.append("new image")

    def follow(self) -> None:
        self.told.append("follow")

    async def stop(self) -> None:
        self.told.append("stop")

    async def before_departure(self, partition: object) -> None:
        self.told.append(("before", partition))

    def departure_from(self, partition: object, connect: object) -> object:
        self.told.append(("departure", partition, connect))
        return "departure"


class Place:
    """As much of a partition as is looked at here."""

    def __init__(self, topic: str) -> None:
        self.topic = topic


async def test_every_host_is_told_and_a_partition_is_a_matter_of_its_own() -> None:
    hosts: Any = NotingHost("a", 0), NotingHost("b", 1)
    coordinators = Coordinators(*hosts)
    coordinators.start()
    coordinators.on_metadata([])
    coordinators.on_new_image()
    coordinators.follow()
    place, other, connect = cast("Any", Place("b")), cast("Any", Place("c")), cast("Any", object())
    await coordinators.before_departure(place)
    await coordinators.before_departure(other)
    departure: object = coordinators.departure_from(place, connect)
    assert (departure, coordinators.departure_from(other, connect)) == ("departure", None)
    await coordinators.stop()
    assert hosts[0].told == ["start", [], "new image", "follow", "stop"]
    assert hosts[1].told == [
        *hosts[0].told[:-1],
        ("before", place),
        ("departure", place, connect),
        "stop",
    ]
    assert [coordinators.for_keys(it) for it in (0, 1, 2)] == [*hosts, None]


@pytest.mark.parametrize("asks", [False, True])
async def test_a_host_is_made_when_its_topic_is_there_or_a_key_is_asked_for(tmp_path: Path, asks: bool) -> None:
    node = GroupNode(tmp_path)
    made = []

    def make() -> Tallies:
        made.append(Tallies(TRANSACTION_STATE, node.groups.context, lambda _: Tally(), Compression.NONE, 1_000))
        return made[-1]

    coordinators = Coordinators(node.groups, Later(TRANSACTION_STATE, 1, node.broker.image, make))
    coordinators.start()
    coordinators.on_metadata([])
    assert made == []
    if asks:
        assert coordinators.for_keys(1) is made[0]
    records = [TopicRecord(name=TRANSACTION_STATE, topic_id=TOPIC_ID), partition_record(TOPIC_ID, 0, 1, (1,))]
    for record in records:
        node.broker.image.apply(record)
    partition = node.table.held[TRANSACTION_STATE, 0] = partition_in(tmp_path / "log")
    coordinators.on_metadata(records)
    assert len(made) == 1
    assert coordinators.for_keys(1) is made[0]
    while made[0].is_loading:
        await asyncio.sleep(0)
    assert made[0].serving()
    await coordinators.stop()
    partition.log.close()
