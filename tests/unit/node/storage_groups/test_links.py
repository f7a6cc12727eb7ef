"""What a replica of a storage group asks other nodes, and what it makes of their answers."""

from collections.abc import Callable
from typing import Any, cast
from uuid import UUID

import pytest

from penstock.client.errors import ConnectionFailedError
from penstock.client.settings import ClientSettings
from penstock.node.quorum.peers import Place
from penstock.node.storage_groups import links as module
from penstock.node.storage_groups.links import COPY_BYTES, GroupLinks
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from penstock.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.protocol.schema import Message
from penstock.raft.log_name import LogName
from penstock.raft.voters import Endpoint
from penstock.replication.storage_groups.entries import PartitionId

ME, OTHER, UNKNOWN = 1, 2, 9
SETTINGS = ClientSettings()
ORDERS = PartitionId(UUID(int=10), 3)


class Paced:
    """Links to all nodes, of which each gives the answer that a test wants."""

    def __init__(self, _: object) -> None:
        self.asked: list[Message] = []
        self.addresses: list[Address] = []
        self.answer: Message | Exception = FetchResponse()
        self.fates: list[str] = []
        self.opens: Exception | None = None

    def to(self, node_id: int) -> "Paced":
        return self

    async def opened(self, address: Callable[[], Address]) -> "Paced":
        self.addresses.append(address())
        if self.opens is not None:
            raise self.opens
        return self

    async def request(self, request: Message, response: type[Message]) -> Message:
        self.asked.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        assert isinstance(self.answer, response)
        return self.answer

    async def failed(self, connection: object) -> None:
        assert connection is self
        self.fates.append("failed")

    def succeeded(self) -> None:
        self.fates.append("succeeded")

    async def close(self) -> None:
        self.fates.append("closed")


def listens_at(node_id: int) -> Endpoint | None:
    return None if node_id == UNKNOWN else Endpoint("INTERNAL", f"node-{node_id}", 9092)


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> GroupLinks:
    monkeypatch.setattr(module, "PacedLinks", Paced)
    return GroupLinks(SETTINGS, "test", ME, listens_at)


def talk(links: GroupLinks) -> Paced:
    return cast("Paced", links._talk)


def copies(links: GroupLinks) -> Paced:
    return cast("Paced", links._copies)


def fetched(**fields: Any) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(**fields)])])


@pytest.mark.parametrize("records", [b"batches", None])
async def test_a_log_is_copied_from_where_it_ends(links: GroupLinks, records: bytes | None) -> None:
    copies(links).answer = fetched(log_start_offset=4, records=records)
    assert await links.copy(OTHER, ORDERS, 7) == (4, records or b"")
    (request,) = copies(links).asked
    assert isinstance(request, FetchRequest)
    ((topic,), replica_id) = request.topics, request.replica_state.replica_id
    (partition,) = topic.partitions
    assert (request.cluster_id, replica_id, request.max_bytes) == ("test", ME, COPY_BYTES)
    assert (topic.topic_id, partition.partition, partition.fetch_offset) == (ORDERS.topic_id, 3, 7)
    assert partition.partition_max_bytes == COPY_BYTES
    assert copies(links).addresses == [Address("node-2", 9092)]
    assert (copies(links).fates, talk(links).asked) == (["succeeded"], []), "votes wait for no copy"


async def test_a_node_that_cannot_be_copied_from_says_why(links: GroupLinks) -> None:
    copies(links).answer = fetched(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with pytest.raises(KafkaError) as refused:
        await links.copy(OTHER, ORDERS, 7)
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_the_metadata_of_another_node_name_the_leader(links: GroupLinks, number: int) -> None:
    rows = [MetadataResponsePartition(partition_index=at, leader_id=5 + at, leader_epoch=8 + at) for at in (0, 1)]
    talk(links).answer = MetadataResponse(topics=[MetadataResponseTopic(partitions=rows)])
    if number < 2:
        assert await links.signpost(OTHER, number) == (5 + number, 8 + number)
    else:
        with pytest.raises(KafkaError) as refused:
            await links.signpost(OTHER, number)
        assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (request,) = talk(links).asked
    assert isinstance(request, MetadataRequest)
    assert not request.allow_auto_topic_creation


async def test_a_node_that_knows_of_no_group_names_no_leader(links: GroupLinks) -> None:
    talk(links).answer = MetadataResponse()
    with pytest.raises(KafkaError) as refused:
        await links.signpost(OTHER, 0)
    assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("node_id", "opens", "fates"),
    [(OTHER, None, ["failed"]), (OTHER, ConnectionFailedError("gone"), []), (UNKNOWN, None, [])],
)
async def test_a_node_that_does_not_answer_is_not_reached(
    links: GroupLinks, node_id: int, opens: Exception | None, fates: list[str]
) -> None:
    talk(links).opens, talk(links).answer = opens, ConnectionFailedError("gone")
    with pytest.raises(KafkaError) as refused:
        await links.signpost(node_id, 0)
    assert refused.value.code == ErrorCode.NETWORK_EXCEPTION
    assert talk(links).fates == fates


async def test_a_replica_that_knows_no_voter_asks_all_others(
    links: GroupLinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[Any, ...]] = []
    monkeypatch.setattr(module, "Peers", lambda *given, **named: made.append((*given, named)))
    name = LogName("__storage_group", UUID(int=1), 0)
    links.peers(name, [OTHER, ME, 3])
    ((settings, place, log, named),) = made
    assert settings is SETTINGS
    assert place == Place(cluster_id="test", node_id=ME, bootstrap=[OTHER, 3])
    assert (log, named) == (name, {"listens_at": listens_at, "talk": talk(links)})
    await links.close()
    assert talk(links).fates == copies(links).fates == ["closed"]
