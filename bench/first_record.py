"""How soon a broker that has just been started takes a record: a topic is created and a record produced, by hand."""

import socket
import struct
import time

from bench.round_trip import produce_request
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.messages.produce import ProduceResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import decode_response, encode_request

CREATE_VERSION, PRODUCE_VERSION = 5, 9
LIMIT_S = 60.0
TOPIC_ALREADY_EXISTS = 36


def first_record_at(port: int, topic: str = "first", limit_s: float = LIMIT_S) -> float:
    """The moment (perf_counter) at which the first record is acknowledged; what fails is tried again."""
    wanted = CreateTopicsRequest(topics=[CreatableTopic(name=topic, num_partitions=1, replication_factor=1)])
    create = encode_request(wanted, CREATE_VERSION, 1, "bench")
    produce = produce_request(topic, b"x" * 100)
    until = time.perf_counter() + limit_s
    while time.perf_counter() < until:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
                if _is_created(_asked(connection, create)) and _is_produced(connection, produce, until):
                    return time.perf_counter()
        except OSError:
            pass
        time.sleep(0.005)
    raise RuntimeError(f"no record was taken within {limit_s:g} s")


def _asked(connection: socket.socket, frame: bytes) -> bytes:
    connection.sendall(frame)
    with connection.makefile("rb") as stream:
        (size,) = struct.unpack(">i", stream.read(4))
        return stream.read(size)


def _is_created(frame: bytes) -> bool:
    _, response = decode_response(ApiKey.CREATE_TOPICS, CREATE_VERSION, frame)
    assert isinstance(response, CreateTopicsResponse)
    return response.topics[0].error_code in (0, TOPIC_ALREADY_EXISTS)


def _is_produced(connection: socket.socket, frame: bytes, until: float) -> bool:
    while time.perf_counter() < until:
        _, response = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, _asked(connection, frame))
        assert isinstance(response, ProduceResponse)
        if response.responses[0].partition_responses[0].error_code == 0:
            return True
        time.sleep(0.002)
    return False
