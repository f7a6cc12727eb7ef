"""Small requests on one connection: the node's own latency and cost, without a client library's.

Produce requests go one after another; heartbeats of a member of a group and fetches of one record many at once.
"""

import socket
import struct
import time
from collections.abc import Iterator
from uuid import UUID

from penstock.protocol.api import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.framing import decode_response, encode_request
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.records import Record, encode_batch

PRODUCE_VERSION = 9
JOIN_VERSION = 9
HEARTBEAT_VERSION = 4
FETCH_VERSION = 16
METADATA_VERSION = 12
AT_ONCE = 50
NO_SESSION, NEW_SESSION = -1, 0
JOINING_LIMIT_S = 30.0


def produce_request(topic: str, value: bytes, acks: int = 1) -> bytes:
    """A produce request with one record for partition 0, framed."""
    batch = encode_batch([Record(offset=0, timestamp_ms=int(time.time() * 1000), key=None, value=value, headers=[])])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=bytes(batch))])
    request = ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[data])
    return encode_request(request, PRODUCE_VERSION, 1, "bench")


def round_trips_ms(port: int, topic: str, count: int) -> Iterator[float]:
    """The time of each of `count` requests in milliseconds."""
    frame = produce_request(topic, b"x" * 100)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            begun = time.perf_counter()
            connection.sendall(frame)
            answer = connection.recv(65536)
            yield (time.perf_counter() - begun) * 1e3
            if struct.unpack_from(">i", answer)[0] != len(answer) - 4:
                raise RuntimeError("half an answer came")


def ask(connection: socket.socket, *frames: bytes) -> bytes:
    """Send requests at once, and return the last answer without its length."""
    connection.sendall(b"".join(frames))
    with connection.makefile("rb") as answers:
        for _ in frames:
            answer = answers.read(struct.unpack(">i", answers.read(4))[0])
    return answer


def join(connection: socket.socket, group: str) -> HeartbeatRequest:
    """Become the only member of a group: what it says from now on."""
    wish = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=300_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    deadline = time.monotonic() + JOINING_LIMIT_S
    while time.monotonic() < deadline:
        frame = ask(connection, encode_request(wish, JOIN_VERSION, 1, "bench"))
        _, answer = decode_response(ApiKey.JOIN_GROUP, JOIN_VERSION, frame)
        assert isinstance(answer, JoinGroupResponse)
        if answer.error_code == ErrorCode.NONE:
            return HeartbeatRequest(group_id=group, generation_id=answer.generation_id, member_id=answer.member_id)
        wish.member_id = answer.member_id
        time.sleep(0.05)
    raise RuntimeError("the group did not come about")


def heartbeats(connection: socket.socket, member: HeartbeatRequest, count: int) -> None:
    """Have a member say so many times that it lives."""
    frame = encode_request(member, HEARTBEAT_VERSION, 1, "bench")
    for _ in range(count // AT_ONCE):
        ask(connection, *[frame] * AT_ONCE)


def topic_id_of(connection: socket.socket, topic: str) -> UUID:
    """The id of a topic."""
    wish = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    frame = ask(connection, encode_request(wish, METADATA_VERSION, 1, "bench"))
    _, answer = decode_response(ApiKey.METADATA, METADATA_VERSION, frame)
    assert isinstance(answer, MetadataResponse)
    return answer.topics[0].topic_id


def fetches(connection: socket.socket, topic_id: UUID, count: int) -> None:
    """Fetch what partition 0 holds from its beginning, so many times, without a session."""
    frame = fetch_request(topic_id, 0, NO_SESSION)
    for _ in range(count // AT_ONCE):
        ask(connection, *[frame] * AT_ONCE)


def fetches_in_session(connection: socket.socket, topic_id: UUID, count: int) -> None:
    """The same in a session, whose requests name the partition each time, as those of a consumer that gets on do."""
    _, opened = decode_response(ApiKey.FETCH, FETCH_VERSION, ask(connection, fetch_request(topic_id, 0, NEW_SESSION)))
    assert isinstance(opened, FetchResponse)
    session = opened.session_id
    for first in range(1, count, AT_ONCE):
        ask(connection, *[fetch_request(topic_id, session, first + number) for number in range(AT_ONCE)])
    ask(connection, fetch_request(topic_id, session, NO_SESSION))


def fetch_request(topic_id: UUID, session_id: int, session_epoch: int) -> bytes:
    """A fetch of partition 0 from its beginning, framed."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50 << 20,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchTopic(topic_id=topic_id, partitions=[partition])],
    )
    return encode_request(request, FETCH_VERSION, 1, "bench")
