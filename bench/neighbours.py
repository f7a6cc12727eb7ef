"""What a neighbour feels while one connection does its worst: round trips of small requests beside each attack."""

import socket
import threading
import time
from collections.abc import Callable

from bench.background import Background
from bench.wire import PRODUCE_VERSION, Wire, framed, produce_frame, produce_request
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.records import Record, encode_batch

TOPIC = "neighbours"
PACKED_RECORDS = 100_000
NAMES = 190_000
PARTITIONS = 10_000
PAUSE_S = 0.003


def metadata_flood() -> bytes:
    """A thousand small requests at once."""
    return framed(MetadataRequest(topics=None), 12) * 1000


def late_look_up() -> bytes:
    """The time of the last of very many records."""
    wanted = ListOffsetsPartition(partition_index=0, timestamp=PACKED_RECORDS)
    return framed(ListOffsetsRequest(topics=[ListOffsetsTopic(name=TOPIC, partitions=[wanted])]), 7)


def many_names() -> bytes:
    """As many topics, none of which there is, as one request may ask for."""
    topics = [MetadataRequestTopic(name=f"no-{number}") for number in range(NAMES)]
    return framed(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9)


def wide_fetch() -> bytes:
    """Very many partitions, none of which there is."""
    partitions = [FetchPartition(partition=number, partition_max_bytes=1 << 20) for number in range(PARTITIONS)]
    topics = [FetchTopic(topic=TOPIC, partitions=partitions)]
    return framed(FetchRequest(max_bytes=1 << 20, session_epoch=-1, topics=topics), 12)


ATTACKS: dict[str, Callable[[], bytes]] = {
    "a flood of Metadata": metadata_flood,
    "ListOffsets by time": late_look_up,
    f"{NAMES:,} topic names": many_names,
    f"a fetch of {PARTITIONS:,} partitions": wide_fetch,
}


def pack_records(address: str) -> None:
    """One batch of very many small records, for `late_look_up`."""
    batch = encode_batch([Record(at, at + 1, None, b"", []) for at in range(PACKED_RECORDS)])
    with Wire(address) as wire:
        wire.ask(produce_request(TOPIC, bytes(batch)), PRODUCE_VERSION)


class Attack(Background):
    """A connection sends the same again and again, as fast as it is answered, until the block ends."""

    def __init__(self, address: str, frames: bytes) -> None:
        super().__init__()
        host, _, port = address.partition(":")
        self._address, self._frames = (host, int(port)), frames

    def run(self) -> None:
        with socket.create_connection(self._address) as connection:
            threading.Thread(target=_drain, args=(connection,), daemon=True).start()
            connection.settimeout(0.5)
            while not self.is_over.is_set():
                try:
                    connection.sendall(self._frames)
                except TimeoutError:
                    break


def _drain(connection: socket.socket) -> None:
    """Read what comes and forget it."""
    try:
        while connection.recv(1 << 20):
            pass
    except OSError:
        pass


def round_trips_beside_ms(address: str, attack: str, count: int) -> list[float]:
    """The round trips of a small produce request beside an attack, in milliseconds."""
    frame, trips = produce_frame("trips", b"x" * 100), []
    with Attack(address, ATTACKS[attack]()), Wire(address) as wire:
        for _ in range(count):
            time.sleep(PAUSE_S)
            trips.append(wire.round_trip_ms(frame))
    return trips
