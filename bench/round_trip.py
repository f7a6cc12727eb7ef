"""Small requests on one connection, without a client library; and what neighbours and sleepers make of others."""

import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from bench.child import Background
from bench.process import BrokerProcess
from bench.topics import create_topic
from bench.wire import PRODUCE_VERSION, Wire, framed, one_record, produce_frame, produce_request
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.schema import Message
from penstock.testing.quorum_view import wait_until

JOIN_VERSION = 9
HEARTBEAT_VERSION = 4
FETCH_VERSION = 16
METADATA_VERSION = 12
NO_SESSION, NEW_SESSION = -1, 0
JOINING_LIMIT_S = 30.0
VALUE = b"x" * 100


class SmallRequests:
    """A connection to a node, and the cost of requests of each kind over it.

    One topic is produced to, another has the one record that is fetched; a group has one member.
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
        """`at_once` requests in a lot: how long each lot took until all of it was answered."""
        lots = (frames[first : first + at_once] for first in range(0, len(frames), at_once))
        return [self._wire.round_trip_ms(b"".join(lot), len(lot)) for lot in lots]

    def _join(self, group: str) -> HeartbeatRequest:
        """Returns the heartbeat of a group's only member."""
        wish = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=300_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )

        def look() -> HeartbeatRequest | None:
            answer = self._wire.ask(wish, JOIN_VERSION)
            wish.member_id = answer.member_id
            if answer.error_code != ErrorCode.NONE:
                return None
            return HeartbeatRequest(group_id=group, generation_id=answer.generation_id, member_id=answer.member_id)

        return wait_until(look, JOINING_LIMIT_S, "the group")

    # lists of requests of one kind, framed

    def produces(self, count: int) -> list[bytes]:
        """Each brings one record of 100 B."""
        return [produce_frame("trips", VALUE)] * count

    def heartbeats(self, count: int) -> list[bytes]:
        return [framed(self._member, HEARTBEAT_VERSION)] * count

    def fetches(self, count: int) -> list[bytes]:
        """Each gets the one record, without a session."""
        return [framed(self._fetch(0, NO_SESSION), FETCH_VERSION)] * count

    def fetches_in_session(self, count: int) -> list[bytes]:
        """In a session, whose requests name the partition each time, as a consumer's do that makes progress.

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


PACKED = "neighbours"
PACKED_RECORDS = 100_000
NAMES = 190_000
WIDE = 10_000
PAUSE_S = 0.003


def late_look_up() -> bytes:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=PACKED_RECORDS)
    return framed(ListOffsetsRequest(topics=[ListOffsetsTopic(name=PACKED, partitions=[wanted])]), 7)


def many_names() -> bytes:
    """As many missing topics as a request may name."""
    topics = [MetadataRequestTopic(name=f"no-{number}") for number in range(NAMES)]
    return framed(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9)


def wide_fetch() -> bytes:
    """Very many missing partitions."""
    partitions = [FetchPartition(partition=number, partition_max_bytes=1 << 20) for number in range(WIDE)]
    topics = [FetchTopic(topic=PACKED, partitions=partitions)]
    return framed(FetchRequest(max_bytes=1 << 20, session_epoch=-1, topics=topics), 12)


ATTACKS: dict[str, Callable[[], bytes]] = {
    "a flood of Metadata": lambda: framed(MetadataRequest(topics=None), 12) * 1000,
    "ListOffsets by time": late_look_up,
    f"{NAMES:,} topic names": many_names,
    f"a fetch of {WIDE:,} partitions": wide_fetch,
}


def pack_records(address: str) -> None:
    """One batch of very many small records, for `late_look_up`."""
    batch = encode_batch([Record(at, at + 1, None, b"", []) for at in range(PACKED_RECORDS)])
    with Wire(address) as wire:
        wire.ask(produce_request(PACKED, bytes(batch)), PRODUCE_VERSION)


class Attack(Background):
    """Sends the same again and again, as fast as it is answered, until the block ends."""

    def __init__(self, address: str, frames: bytes) -> None:
        super().__init__()
        host, _, port = address.partition(":")
        self._address, self._frames = (host, int(port)), frames

    def run(self) -> None:
        with socket.create_connection(self._address) as connection, suppress(TimeoutError):
            threading.Thread(target=_drain, args=(connection,), daemon=True).start()
            connection.settimeout(0.5)
            while not self.is_over.is_set():
                connection.sendall(self._frames)


def _drain(connection: socket.socket) -> None:
    with suppress(OSError):
        while connection.recv(1 << 20):
            pass


def round_trips_beside_ms(address: str, attack: str, count: int) -> list[float]:
    frame, trips = produce_frame("trips", VALUE), []
    with Attack(address, ATTACKS[attack]()), Wire(address) as wire:
        for _ in range(count):
            time.sleep(PAUSE_S)
            trips.append(wire.round_trip_ms(frame))
    return trips


PATIENCE_S: Final = 60
LATEST: Final = -1
OLD_FETCH_VERSION, LIST_OFFSETS_VERSION, CREATE_VERSION = 11, 7, 7
"""The first two are versions that name topics."""


class Stale:
    """A connection from before a node's sleep, and a request that the node sees first when it wakes up."""

    def __init__(self, address: str, request: Message, version: int, code_of: Callable[[Any], int]) -> None:
        self._wire, self._request, self._version, self._code_of = Wire(address, PATIENCE_S), request, version, code_of

    def send(self) -> None:
        self._wire.send(framed(self._request, self._version))

    def answer(self) -> ErrorCode:
        """Ends the connection."""
        with self._wire:
            return ErrorCode(self._code_of(self._wire.answer_to(self._request, self._version)))


def stale_record(address: str, topic: str, value: bytes, acks: int) -> Stale:
    request = produce_request(topic, one_record(value), acks)
    return Stale(address, request, PRODUCE_VERSION, lambda found: found.responses[0].partition_responses[0].error_code)


def stale_creation(controller_address: str, topic: str) -> Stale:
    new = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[new], timeout_ms=PATIENCE_S * 1000)
    return Stale(controller_address, request, CREATE_VERSION, lambda found: found.topics[0].error_code)


def stale_requests(address: str, topic: str, values: dict[int, bytes]) -> dict[str, Stale]:
    """Consumers' requests to the first partition's leader (records from the beginning, the log's end), and records by
    their acks; each on a connection of its own.
    """
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    fetch = FetchRequest(max_bytes=1 << 20, topics=[FetchTopic(topic=topic, partitions=[wanted])])
    latest = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    end = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[latest])])
    return {
        "fetch": Stale(address, fetch, OLD_FETCH_VERSION, lambda found: found.responses[0].partitions[0].error_code),
        "end": Stale(address, end, LIST_OFFSETS_VERSION, lambda found: found.topics[0].partitions[0].error_code),
        **{f"acks={acks}": stale_record(address, topic, value, acks) for acks, value in values.items()},
    }
