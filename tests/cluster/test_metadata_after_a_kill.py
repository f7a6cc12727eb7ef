"""What the controller acknowledged outlives a kill -9 at any moment, and nothing is there by halves."""

import asyncio
import signal
from pathlib import Path

from tests.cluster.started import ANY_PORT, Started, started

from penstock.client.connection import Connection, connect
from penstock.client.errors import ConnectionFailedError
from penstock.client.settings import ClientSettings
from penstock.protocol.address import Address
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic

PARTITIONS = 3
ACKNOWLEDGED_BEFORE_THE_KILL = 60
CREATORS = 8


async def connected(node: Started) -> Connection:
    return await connect(Address("127.0.0.1", node.port), ClientSettings())


class Creation:
    """Creates topics over several connections until the node is killed under them."""

    def __init__(self, node: Started) -> None:
        self._node = node
        self._number = 0
        self.acknowledged: list[str] = []

    async def run(self) -> None:
        await asyncio.gather(*(self._create_until_it_is_dead() for _ in range(CREATORS)))

    async def _create_until_it_is_dead(self) -> None:
        connection = await connected(self._node)
        try:
            while True:
                self._number += 1
                await self._create(connection, f"topic-{self._number}")
        except ConnectionFailedError:
            pass

    async def _create(self, connection: Connection, name: str) -> None:
        topic = CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1)
        reply = await connection.request(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
        assert reply.topics[0].error_code == 0
        self.acknowledged.append(name)
        if len(self.acknowledged) == ACKNOWLEDGED_BEFORE_THE_KILL:
            self._node.process.send_signal(signal.SIGKILL)


async def all_topics(node: Started) -> list[MetadataResponseTopic]:
    connection = await connected(node)
    try:
        return (await connection.request(MetadataRequest(topics=None), MetadataResponse)).topics
    finally:
        await connection.close()


async def producer_ids(node: Started, count: int) -> list[int]:
    connection = await connected(node)
    try:
        futures = [
            connection.submit(InitProducerIdRequest(transactional_id=None), InitProducerIdResponse)
            for _ in range(count)
        ]
        return [reply.producer_id for reply in await asyncio.gather(*futures) if reply.error_code == 0]
    finally:
        await connection.close()


def test_topics_that_were_acknowledged_are_there_and_whole(tmp_path: Path) -> None:
    with started(tmp_path, *ANY_PORT) as node:
        creation = Creation(node)
        asyncio.run(creation.run())
    with started(tmp_path, *ANY_PORT) as node:
        topics = asyncio.run(all_topics(node))
    names = {topic.name for topic in topics}
    assert len(creation.acknowledged) >= ACKNOWLEDGED_BEFORE_THE_KILL
    assert [name for name in creation.acknowledged if name not in names] == []
    for topic in topics:
        assert topic.error_code == 0
        assert [(p.partition_index, p.leader_id, p.error_code) for p in topic.partitions] == [
            (index, 1, 0) for index in range(PARTITIONS)
        ]


def test_a_producer_id_is_given_once_whatever_happens(tmp_path: Path) -> None:
    given: list[int] = []
    for _ in range(3):
        with started(tmp_path, *ANY_PORT) as node:
            ids = asyncio.run(producer_ids(node, 1500))
            assert len(ids) == 1500
            given += ids
            node.process.send_signal(signal.SIGKILL)
    assert len(set(given)) == len(given)
