"""One small produce request after another on one connection: the node's own latency, without a client library's."""

import socket
import struct
import time
from collections.abc import Iterator

from penstock.protocol.framing import encode_request
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.records import Record, encode_batch

PRODUCE_VERSION = 9


def produce_request(topic: str, value: bytes) -> bytes:
    """A produce request with one record for partition 0, acks=1, framed."""
    batch = encode_batch([Record(offset=0, timestamp_ms=int(time.time() * 1000), key=None, value=value, headers=[])])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=bytes(batch))])
    request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data])
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
