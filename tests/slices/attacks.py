"""What one client, or a crowd of them, may do to a node: a table of attacks, each of them frames sent over and over."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable
from multiprocessing.synchronize import Event
from typing import Final, NamedTuple

from tests.slices.requests import Filling, Shape, There
from tests.wire.raw_client import Closed, RawClient, batch_of

from penstock.protocol.batch import HEADER, HEADER_SIZE, read_header, write_crc
from penstock.protocol.compression import Compression, compress
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.requests.api import ApiKey, api_of
from penstock.protocol.requests.framing import api_of_request, encode_request
from penstock.protocol.schema import Message

UNPACKED_BYTES = 1 << 30
PARTITIONS = 10_000
TOPICS = 1_000
FLOODED = 90
"""Partitions that take 1 MB each at a time."""
SHREDS = 500
PATIENCE_S = 60
UNREAD_S = 0.05
"""A peer that does not read holds its client up no longer."""
AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER: a closed connection leaves nothing behind, and its port is free again."""

Frames = Callable[["Target"], list[bytes]]


class Target(NamedTuple):
    broker: str
    controller: str
    there: There


class Attack(NamedTuple):
    """`threads` with `connections` each send the frames; without an answer to wait for, they go on at once."""

    name: str
    frames: Frames
    threads: int = 1
    connections: int = 1
    is_answered: bool = True
    is_brief: bool = False
    """Each time with a new connection."""
    is_for_controller: bool = False


class Crowd:
    """Connections that are made anew after they were closed."""

    def __init__(self, address: str, attack: Attack, frames: list[bytes]) -> None:
        self._address, self._attack, self._frames = address, attack, frames
        self._clients: list[RawClient | None] = [None] * attack.connections

    def step(self) -> None:
        for frame in self._frames:
            self._each(lambda client, frame=frame: client.send_bytes(frame))  # type: ignore[misc]
            if self._attack.is_answered:
                self._each(lambda client: client.receive_frame(), connects=False)
        if self._attack.is_brief:
            self.close()

    def _each(self, do: Callable[[RawClient], object], *, connects: bool = True) -> None:
        for number, client in enumerate(self._clients):
            try:
                if client is None and connects:
                    client = self._clients[number] = self._connected()
                if client is not None:
                    do(client)
            except (Closed, OSError) as error:
                if self._attack.is_answered or not isinstance(error, TimeoutError):
                    self._close(number)

    def _connected(self) -> RawClient:
        client = RawClient(self._address)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        client.socket.settimeout(PATIENCE_S if self._attack.is_answered else UNREAD_S)
        return client

    def _close(self, number: int) -> None:
        client, self._clients[number] = self._clients[number], None
        if client is not None:
            client.close()

    def close(self) -> None:
        for number in range(len(self._clients)):
            self._close(number)


def carry_out(target: Target, name: str, is_over: Event) -> None:
    """In a process of its own; says how often the attack was carried out.

    Who attacks has machines of his own: here he gets what the node and its neighbour leave of this one.
    """
    os.nice(19)
    attack = next(attack for attack in ATTACKS if attack.name == name)
    frames, done, ended = attack.frames(target), [0] * attack.threads, threading.Event()

    def run(number: int) -> None:
        crowd = Crowd(target.controller if attack.is_for_controller else target.broker, attack, frames)
        while not ended.is_set():  # who ends while it asks `is_over` keeps its lock for good
            crowd.step()
            done[number] += 1

    for number in range(attack.threads):
        threading.Thread(target=run, args=(number,), daemon=True).start()
    is_over.wait()
    ended.set()
    print(f"{name}: {sum(done)}", flush=True)


# What they send


def of(*requests: Message) -> list[bytes]:
    return [encode_request(one, api_of_request(one).versions[-1], 7, "raw") for one in requests]


def asking(key: ApiKey, version: int, wide: int, deep: int) -> Frames:
    shape = Shape(wide, deep)
    return lambda to: [encode_request(Filling(to.there, shape, key, version).request(), version, 7, "raw")]


def half_frames(key: ApiKey) -> Frames:
    """90 MB are announced, one is sent: nothing that is there says that the request will be refused."""
    header = encode_request(api_of(key).request_class(), api_of(key).versions[-1], 7, "raw")[4:18]
    return lambda _: [(90 << 20).to_bytes(4, "big") + header + bytes(1 << 20)]


def tagged_fields(request: Message) -> Frames:
    """Millions of them behind the request's own fields, where nothing says so before they are there."""
    api = api_of_request(request)
    body = encode_request(request, api.versions[-1], 7, "raw")[4:-1] + b"\xff\xff\xff\x03" + b"\1\0" * (11 << 20)
    return lambda _: [len(body).to_bytes(4, "big") + body]


def lookups(_: Target) -> list[bytes]:
    partition = ListOffsetsPartition(partition_index=0, timestamp=1)
    return of(ListOffsetsRequest(topics=[ListOffsetsTopic(name="bomb", partitions=[partition])]))


def _new(name: str, partitions: int, configs: dict[str, str] | None = None) -> CreatableTopic:
    given = [CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=given)


def made_and_deleted(_: Target) -> list[bytes]:
    """A thousand topics, then one of very many partitions."""
    frames: list[bytes] = []
    for topics, partitions in ((TOPICS, 1), (1, PARTITIONS)):
        names = [f"made-{number}" for number in range(topics)]
        new = [_new(name, partitions) for name in names]
        gone = [DeleteTopicState(name=name) for name in names]
        frames += of(
            CreateTopicsRequest(topics=new, timeout_ms=PATIENCE_S * 1000),
            DeleteTopicsRequest(topics=gone, timeout_ms=PATIENCE_S * 1000),
        )
    return frames


def flood(_: Target) -> list[bytes]:
    """90 MB of records in one request, which are deleted then."""
    batch = batch_of(bytes(1 << 20))
    return [*_produced("flood", batch, FLOODED), *_emptied("flood", FLOODED)]


def shreds(_: Target) -> list[bytes]:
    """Each record is a segment of its own, and all are deleted at once."""
    return [b"".join(_produced("shreds", batch_of(b"x"), 1, acks=0) * SHREDS + _emptied("shreds", 1))]


def _produced(topic: str, batch: bytes, partitions: int, *, acks: int = 1) -> list[bytes]:
    data = [PartitionProduceData(index=number, records=batch) for number in range(partitions)]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    request = ProduceRequest(acks=acks, timeout_ms=PATIENCE_S * 1000, topic_data=topics)
    return [encode_request(request, 12, 7, "raw")]


def _emptied(topic: str, partitions: int) -> list[bytes]:
    all_of_them = [DeleteRecordsPartition(partition_index=number, offset=-1) for number in range(partitions)]
    topics = [DeleteRecordsTopic(name=topic, partitions=all_of_them)]
    return of(DeleteRecordsRequest(topics=topics, timeout_ms=PATIENCE_S * 1000))


def joins(_: Target) -> list[bytes]:
    """Of one group; a member that does not come back is thrown out soon."""
    request = JoinGroupRequest(
        group_id="crowd",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=3_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(100))],
    )
    return [encode_request(request, 3, 7, "raw")]


ATTACKS: Final = [
    Attack("half frames", half_frames(ApiKey.PRODUCE), threads=5, connections=100, is_answered=False),
    Attack("unread answers", lambda _: of(MetadataRequest(topics=None)), connections=150, is_answered=False),
    Attack("look-ups in a bomb", lookups, threads=4, connections=10),
    Attack("tagged fields", tagged_fields(MetadataRequest())),
    Attack("tagged fields to the controller", tagged_fields(BrokerHeartbeatRequest()), is_for_controller=True),
    Attack(
        "half frames to the controller",
        half_frames(ApiKey.BROKER_HEARTBEAT),
        connections=20,
        is_answered=False,
        is_for_controller=True,
    ),
    Attack("OffsetCommit", asking(ApiKey.OFFSET_COMMIT, 9, 1, 100_000)),
    Attack("DescribeConfigs", asking(ApiKey.DESCRIBE_CONFIGS, 4, 2 * TOPICS, 1)),
    Attack("DescribeLogDirs", asking(ApiKey.DESCRIBE_LOG_DIRS, 4, 1, PARTITIONS)),
    Attack("Metadata", asking(ApiKey.METADATA, 12, 100_000, 1)),
    Attack("AlterConfigs", asking(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, TOPICS, 1)),
    Attack("reassignment", asking(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, 1, TOPICS)),
    Attack("AlterPartition", asking(ApiKey.ALTER_PARTITION, 3, 1, PARTITIONS), is_for_controller=True),
    Attack("topics", made_and_deleted),
    Attack("flood", flood),
    Attack("shreds", shreds),
    Attack("new connections", lambda _: of(ApiVersionsRequest()), threads=2, is_brief=True),
    Attack("joins", joins, connections=8_000),
]


def fill(address: str) -> There:
    """Make what the attacks are about."""
    at_once = {"file.delete.delay.ms": "0"}
    many = [f"t-{number}" for number in range(2 * TOPICS)]
    topics = [
        _new("quiet", 1),
        _new("deep", PARTITIONS),
        *(_new(name, 1) for name in many),
        _new("bomb", 1, {"max.message.bytes": "2000000"}),
        _new("flood", FLOODED, at_once | {"segment.bytes": str(1 << 20)}),
        _new("shreds", 1, at_once | {"internal.segment.bytes": "100"}),
    ]
    with RawClient(address) as client:
        client.socket.settimeout(PATIENCE_S)
        client.ask(CreateTopicsRequest(topics=topics, timeout_ms=PATIENCE_S * 1000))
        client.find_coordinator("g")
        assert client.produce("bomb", bomb()).error_code == 0
        found = {topic.name: topic.topic_id for topic in client.ask(MetadataRequest(topics=None)).topics}
    names = ["deep", *many]
    return There(names, [found[name] for name in names], PARTITIONS, "g")


def bomb() -> bytes:
    """A batch of one record that claims a gigabyte of zeros."""
    header = read_header(batch_of(b"x"), 0)
    payload = compress(Compression.ZSTD, bytes(UNPACKED_BYTES))
    header = header._replace(attributes=Compression.ZSTD, batch_length=HEADER_SIZE - 12 + len(payload))
    data = bytearray(HEADER.pack(*header)) + payload
    write_crc(data, 0, len(data))
    return bytes(data)
