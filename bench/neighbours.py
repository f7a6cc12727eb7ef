"""What a neighbour feels while one connection does its worst: round trips of small requests beside each attack."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.round_trip import produce_request
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.requests.framing import encode_request

TOPIC = "neighbours"
PACKED_RECORDS = 100_000
NAMES = 190_000
PARTITIONS = 10_000
PAUSE_S = 0.003


def metadata_flood() -> bytes:
    """A thousand small requests at once."""
    return encode_request(MetadataRequest(topics=None), 12, 1, "worst") * 1000


def late_look_up() -> bytes:
    """The time of the last of very many records."""
    wanted = ListOffsetsPartition(partition_index=0, timestamp=PACKED_RECORDS)
    topic = ListOffsetsTopic(name=TOPIC, partitions=[wanted])
    return encode_request(ListOffsetsRequest(topics=[topic]), 7, 1, "worst")


def many_names() -> bytes:
    """As many topics, none of which there is, as one request may ask for."""
    topics = [MetadataRequestTopic(name=f"no-{number}") for number in range(NAMES)]
    return encode_request(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9, 1, "worst")


def wide_fetch() -> bytes:
    """Very many partitions, none of which there is."""
    partitions = [FetchPartition(partition=number, partition_max_bytes=1 << 20) for number in range(PARTITIONS)]
    topics = [FetchTopic(topic=TOPIC, partitions=partitions)]
    return encode_request(FetchRequest(max_bytes=1 << 20, session_epoch=-1, topics=topics), 12, 1, "worst")


ATTACKS: dict[str, Callable[[], bytes]] = {
    "a flood of Metadata": metadata_flood,
    "ListOffsets by time": late_look_up,
    f"{NAMES:,} topic names": many_names,
    f"a fetch of {PARTITIONS:,} partitions": wide_fetch,
}


def pack_records(port: int) -> None:
    """One batch of very many small records, for `late_look_up`."""
    batch = encode_batch([Record(at, at + 1, None, b"", []) for at in range(PACKED_RECORDS)])
    data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=bytes(batch))])
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(encode_request(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data]), 9, 1, "bench"))
        connection.recv(1 << 16)


@contextmanager
def attacked(port: int, frames: bytes) -> Iterator[None]:
    """A connection sends the same again and again, as fast as it is answered, until the block ends."""
    over = threading.Event()

    def attack() -> None:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            reader = threading.Thread(target=drain, args=(connection,), daemon=True)
            reader.start()
            connection.settimeout(0.5)
            while not over.is_set():
                try:
                    connection.sendall(frames)
                except TimeoutError:
                    break

    thread = threading.Thread(target=attack, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def drain(connection: socket.socket) -> None:
    """Read what comes and forget it."""
    try:
        while connection.recv(1 << 20):
            pass
    except OSError:
        pass


def round_trips_beside_ms(port: int, attack: str, count: int) -> list[float]:
    """The round trips of a small produce request beside an attack, in milliseconds, in order of size."""
    frame, trips = produce_request("trips", b"x" * 100), []
    with attacked(port, ATTACKS[attack]()), socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            time.sleep(PAUSE_S)
            begun = time.perf_counter()
            connection.sendall(frame)
            answer = connection.recv(65536)
            trips.append((time.perf_counter() - begun) * 1e3)
            if struct.unpack_from(">i", answer)[0] != len(answer) - 4:
                raise RuntimeError("half an answer came")
    return sorted(trips)
