"""Small requests on one connection: the node's own latency and cost, without a client library's."""

import socket
import struct
import time
from collections.abc import Callable, Sequence

from bench.load import create_topic
from bench.process import BrokerProcess
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import decode_response, encode_request

PRODUCE_VERSION = 9
JOIN_VERSION = 9
HEARTBEAT_VERSION = 4
FETCH_VERSION = 16
METADATA_VERSION = 12
NO_SESSION, NEW_SESSION = -1, 0
JOINING_LIMIT_S = 30.0
VALUE = b"x" * 100


def produce_request(topic: str, value: bytes, acks: int = 1) -> bytes:
    """A produce request with one record for partition 0, framed."""
    batch = encode_batch([Record(offset=0, timestamp_ms=int(time.time() * 1000), key=None, value=value, headers=[])])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=bytes(batch))])
    request = ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[data])
    return encode_request(request, PRODUCE_VERSION, 1, "bench")


class SmallRequests:
    """A connection to a node, and what it takes to send requests of each kind over it.

    A topic takes what is produced, another has the one record that is fetched; a group has one member.
    """

    def __init__(self, node: BrokerProcess) -> None:
        for topic in ("trips", "one"):
            create_topic(node.address, topic)
        self._connection = socket.create_connection(("127.0.0.1", node.port))
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._connection.makefile("rb")
        self._ask(produce_request("one", VALUE))
        self._member = self._join("bench")
        wish = MetadataRequest(topics=[MetadataRequestTopic(name="one")])
        _, found = decode_response(
            ApiKey.METADATA, METADATA_VERSION, self._ask(encode_request(wish, METADATA_VERSION, 1, "bench"))
        )
        assert isinstance(found, MetadataResponse)
        self._topic_id = found.topics[0].topic_id

    def round_trips_ms(self, frames: Sequence[bytes], at_once: int = 1) -> list[float]:
        """Send requests, so many at once: how long each lot took until all of it was answered."""
        trips = []
        for first in range(0, len(frames), at_once):
            lot = frames[first : first + at_once]
            begun = time.perf_counter()
            self._connection.sendall(b"".join(lot))
            for _ in lot:
                self._answer()
            trips.append((time.perf_counter() - begun) * 1e3)
        return trips

    def close(self) -> None:
        """Hang up."""
        self._answers.close()
        self._connection.close()

    def _ask(self, frame: bytes) -> bytes:
        self._connection.sendall(frame)
        return self._answer()

    def _answer(self) -> bytes:
        return self._answers.read(struct.unpack(">i", self._answers.read(4))[0])

    def _join(self, group: str) -> HeartbeatRequest:
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
            frame = self._ask(encode_request(wish, JOIN_VERSION, 1, "bench"))
            _, answer = decode_response(ApiKey.JOIN_GROUP, JOIN_VERSION, frame)
            assert isinstance(answer, JoinGroupResponse)
            if answer.error_code == ErrorCode.NONE:
                return HeartbeatRequest(group_id=group, generation_id=answer.generation_id, member_id=answer.member_id)
            wish.member_id = answer.member_id
            time.sleep(0.05)
        raise RuntimeError("the group did not come about")

    # so many requests of one kind, framed

    def produces(self, count: int) -> list[bytes]:
        """Each brings one record of 100 B."""
        return [produce_request("trips", VALUE)] * count

    def heartbeats(self, count: int) -> list[bytes]:
        """The member says that it lives."""
        return [encode_request(self._member, HEARTBEAT_VERSION, 1, "bench")] * count

    def fetches(self, count: int) -> list[bytes]:
        """Each gets the one record, without a session."""
        return [self._fetch(0, NO_SESSION)] * count

    def fetches_in_session(self, count: int) -> list[bytes]:
        """The same in a session, whose requests name the partition each time, as those of a consumer that gets on do.

        The last one ends the session.
        """
        _, opened = decode_response(ApiKey.FETCH, FETCH_VERSION, self._ask(self._fetch(0, NEW_SESSION)))
        assert isinstance(opened, FetchResponse)
        session = opened.session_id
        return [*(self._fetch(session, epoch) for epoch in range(1, count)), self._fetch(session, NO_SESSION)]

    def _fetch(self, session_id: int, session_epoch: int) -> bytes:
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=50 << 20,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=[FetchTopic(topic_id=self._topic_id, partitions=[partition])],
        )
        return encode_request(request, FETCH_VERSION, 1, "bench")


REQUESTS_OF: dict[str, Callable[[SmallRequests, int], list[bytes]]] = {
    "produce": SmallRequests.produces,
    "heartbeat": SmallRequests.heartbeats,
    "fetch": SmallRequests.fetches,
    "session fetch": SmallRequests.fetches_in_session,
}
