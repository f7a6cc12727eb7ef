"""Small requests on one connection: the node's own latency and cost, without a client library's."""

import time
from collections.abc import Callable, Sequence

from bench.process import BrokerProcess
from bench.topics import create_topic
from bench.wire import Wire, framed, produce_frame
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

JOIN_VERSION = 9
HEARTBEAT_VERSION = 4
FETCH_VERSION = 16
METADATA_VERSION = 12
NO_SESSION, NEW_SESSION = -1, 0
JOINING_LIMIT_S = 30.0
VALUE = b"x" * 100


class SmallRequests:
    """A connection to a node, and what it takes to send requests of each kind over it.

    A topic takes what is produced, another has the one record that is fetched; a group has one member.
    """

    def __init__(self, node: BrokerProcess) -> None:
        for topic in ("trips", "one"):
            create_topic(node.address, topic)
        self._wire = Wire(node.address)
        self.close = self._wire.close
        self._wire.round_trip_ms(produce_frame("one", VALUE))
        self._member = self._join("bench")
        found = self._wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name="one")]), METADATA_VERSION)
        self._topic_id = found.topics[0].topic_id

    def round_trips_ms(self, frames: Sequence[bytes], at_once: int = 1) -> list[float]:
        """Send requests, so many at once: how long each lot took until all of it was answered."""
        lots = (frames[first : first + at_once] for first in range(0, len(frames), at_once))
        return [self._wire.round_trip_ms(b"".join(lot), len(lot)) for lot in lots]

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
            answer = self._wire.ask(wish, JOIN_VERSION)
            if answer.error_code == ErrorCode.NONE:
                return HeartbeatRequest(group_id=group, generation_id=answer.generation_id, member_id=answer.member_id)
            wish.member_id = answer.member_id
            time.sleep(0.05)
        raise RuntimeError("the group did not come about")

    # so many requests of one kind, framed

    def produces(self, count: int) -> list[bytes]:
        """Each brings one record of 100 B."""
        return [produce_frame("trips", VALUE)] * count

    def heartbeats(self, count: int) -> list[bytes]:
        """The member says that it lives."""
        return [framed(self._member, HEARTBEAT_VERSION)] * count

    def fetches(self, count: int) -> list[bytes]:
        """Each gets the one record, without a session."""
        return [framed(self._fetch(0, NO_SESSION), FETCH_VERSION)] * count

    def fetches_in_session(self, count: int) -> list[bytes]:
        """The same in a session, whose requests name the partition each time, as those of a consumer that gets on do.

        The last one ends the session.
        """
        session = self._wire.ask(self._fetch(0, NEW_SESSION), FETCH_VERSION).session_id
        return [framed(self._fetch(session, epoch), FETCH_VERSION) for epoch in (*range(1, count), NO_SESSION)]

    def _fetch(self, session_id: int, session_epoch: int) -> FetchRequest:
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        return FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=50 << 20,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=[FetchTopic(topic_id=self._topic_id, partitions=[partition])],
        )


REQUESTS_OF: dict[str, Callable[[SmallRequests, int], list[bytes]]] = {
    "produce": SmallRequests.produces,
    "heartbeat": SmallRequests.heartbeats,
    "fetch": SmallRequests.fetches,
    "session fetch": SmallRequests.fetches_in_session,
}
