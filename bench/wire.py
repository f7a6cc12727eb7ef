"""A connection to a node over which frames go as they are made: a node's own latency and cost, without a library's."""

import socket
import ssl
import struct
import time
from typing import Any, Self

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.requests.framing import api_of_request, decode_response, encode_request
from penstock.protocol.schema import Message

PRODUCE_VERSION = 9
CREATE_VERSION = 5


def framed(request: Message, version: int) -> bytes:
    return encode_request(request, version, 1, "bench")


def produce_request(topic: str, batch: bytes, acks: int = 1) -> ProduceRequest:
    """For partition 0, in `PRODUCE_VERSION`."""
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[data])


def one_record(value: bytes) -> bytes:
    return bytes(encode_batch([Record(timestamp_ms=int(time.time() * 1000), value=value)]))


def produce_frame(topic: str, value: bytes, acks: int = 1) -> bytes:
    return framed(produce_request(topic, one_record(value), acks), PRODUCE_VERSION)


class Wire:
    def __init__(self, address: str, limit_s: float | None = None, tls: ssl.SSLContext | None = None) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), limit_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=host)
        self._answers = self._socket.makefile("rb")

    def send(self, frames: bytes) -> None:
        self._socket.sendall(frames)

    def answer(self) -> bytes:
        """Without its length."""
        if len(length := self._answers.read(4)) < 4:
            raise ConnectionResetError("the node has hung up")
        return self._answers.read(struct.unpack(">i", length)[0])

    def ask(self, request: Message, version: int) -> Any:
        self.send(framed(request, version))
        return self.answer_to(request, version)

    def answer_to(self, request: Message, version: int) -> Any:
        return decode_response(api_of_request(request).key, version, self.answer())[1]

    def round_trip_ms(self, frames: bytes, count: int = 1) -> float:
        """`count` requests at once, until all were answered."""
        begun = time.perf_counter()
        self._socket.sendall(frames)
        for _ in range(count):
            self.answer()
        return (time.perf_counter() - begun) * 1e3

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def first_record_at(address: str, topic: str = "first", limit_s: float = 60.0) -> float:
    """The moment (perf_counter) of the first acknowledgement; failures are tried again."""
    create = CreateTopicsRequest(topics=[CreatableTopic(name=topic, num_partitions=1, replication_factor=1)])
    produce = produce_request(topic, one_record(b"x" * 100))
    until = time.perf_counter() + limit_s
    while time.perf_counter() < until:
        try:
            with Wire(address, 10) as wire:
                code = wire.ask(create, CREATE_VERSION).topics[0].error_code
                while code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS) and time.perf_counter() < until:
                    answer = wire.ask(produce, PRODUCE_VERSION).responses[0].partition_responses[0]
                    if answer.error_code == ErrorCode.NONE:
                        return time.perf_counter()
                    time.sleep(0.002)
        except OSError:
            pass
        time.sleep(0.005)
    raise RuntimeError(f"no record was taken within {limit_s:g} s")
