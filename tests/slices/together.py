"""All attacks at once on a node of its own, and what its memory and a neighbour's round trips are meanwhile.

Batches that unpack to a gigabyte and are looked up by time, frames that are begun and never ended, answers that are
never read, tagged fields by the million, and the largest requests about many things, from some 700 connections.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

from bench.process import BrokerProcess, running_node
from tests.slices.requests import Filling, Shape, There
from tests.wire.raw_client import Closed, RawClient, batch_of

from penstock.protocol.batch import HEADER, HEADER_SIZE, read_header, write_crc
from penstock.protocol.compression import Compression, compress
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import encode_request

UNPACKED_BYTES = 1 << 30
PARTITIONS = 10_000
GONE = (Closed, OSError)


def bomb() -> bytes:
    """A batch of one record that claims a gigabyte of zeros."""
    header = read_header(batch_of(b"x"), 0)
    payload = compress(Compression.ZSTD, bytes(UNPACKED_BYTES))
    header = header._replace(attributes=Compression.ZSTD, batch_length=HEADER_SIZE - 12 + len(payload))
    data = bytearray(HEADER.pack(*header)) + payload
    write_crc(data, 0, len(data))
    return bytes(data)


class Attack:
    """Connections that stay open; `steps` are done over and over by one thread each."""

    def __init__(self, address: str, stack: ExitStack) -> None:
        self._address = address
        self._stack = stack
        self._is_over = threading.Event()

    def connect(self) -> RawClient:
        return self._stack.enter_context(RawClient(self._address))

    def begin(self, step: Callable[[], object]) -> None:
        def run() -> None:
            while not self._is_over.is_set():
                with suppress(*GONE):
                    step()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self._stack.callback(thread.join, 60)

    def end(self) -> None:
        self._is_over.set()


def half_frames(attack: Attack) -> None:
    """500 connections announce 90 MB each, and send a megabyte."""
    beginning = (90 << 20).to_bytes(4, "big") + ApiKey.PRODUCE.to_bytes(2, "big") + bytes(1 << 20)
    for _ in range(5):
        clients = [attack.connect() for _ in range(100)]

        def step(clients: list[RawClient] = clients) -> None:
            for number, client in enumerate(clients):
                try:
                    client.socket.settimeout(0.05)
                    client.send_bytes(beginning)
                except TimeoutError:
                    pass
                except OSError:
                    clients[number] = attack.connect()

        attack.begin(step)


def unread_answers(attack: Attack) -> None:
    """150 connections ask for all topics, again and again, and read nothing."""
    clients = [attack.connect() for _ in range(150)]

    def step() -> None:
        for number, client in enumerate(clients):
            try:
                client.socket.settimeout(0.05)
                client.send(MetadataRequest(topics=None), is_answered=False)
            except TimeoutError:
                pass
            except OSError:
                clients[number] = attack.connect()

    attack.begin(step)


def lookups(attack: Attack) -> None:
    partition = ListOffsetsPartition(partition_index=0, timestamp=1)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="bomb", partitions=[partition])])
    for _ in range(4):
        clients = [attack.connect() for _ in range(10)]

        def step(clients: list[RawClient] = clients) -> None:
            for client in clients:
                client.send(request)
            for client in clients:
                client.receive()

        attack.begin(step)


def tagged_fields(attack: Attack) -> None:
    header = ApiKey.METADATA.to_bytes(2, "big") + (12).to_bytes(2, "big") + bytes(4) + b"\xff\xff"
    frame = header + b"\xff\xff\xff\x03" + b"\1\0" * (11 << 20)

    def step() -> None:
        with RawClient(attack._address) as client:
            client.send_frame(frame)
            client.end()

    attack.begin(step)


def large_requests(attack: Attack, there: There) -> None:
    for key, version, shape in (
        (ApiKey.OFFSET_COMMIT, 9, Shape(1, 100_000)),
        (ApiKey.DESCRIBE_CONFIGS, 4, Shape(2_000, 1)),
        (ApiKey.DESCRIBE_LOG_DIRS, 4, Shape(1, PARTITIONS)),
        (ApiKey.DELETE_RECORDS, 2, Shape(1, PARTITIONS)),
        (ApiKey.METADATA, 12, Shape(100_000, 1)),
    ):
        data = encode_request(Filling(there, shape, key, version).request(), version, 7, "raw")

        def step(data: bytes = data) -> None:
            with RawClient(attack._address) as client:
                client.send_bytes(data)
                client.receive_frame()

        attack.begin(step)


def round_trips_ms(address: str, seconds: float) -> Iterator[float]:
    """Of a producer with one record in each request, five milliseconds apart."""
    batch, end = batch_of(b"x" * 100), time.perf_counter() + seconds
    with RawClient(address) as client:
        while time.perf_counter() < end:
            began = time.perf_counter()
            client.produce("quiet", batch)
            yield (time.perf_counter() - began) * 1000
            time.sleep(0.005)


def _watch(node: BrokerProcess, is_over: threading.Event, found: list[float]) -> None:
    while not is_over.wait(0.02):
        found.append(node.resident_mb)


def main(seconds: float) -> None:
    with running_node({"num.partitions": "1"}) as node, ExitStack() as stack:
        with RawClient(node.address) as client:
            client.create_topic("quiet")
            client.create_topic("bomb", configs={"max.message.bytes": "2000000"})
            deep = CreatableTopic(name="deep", num_partitions=PARTITIONS, replication_factor=1)
            client.ask(CreateTopicsRequest(topics=[deep], timeout_ms=30_000))
            client.find_coordinator("g")
            client.produce("bomb", bomb())
            ids = [topic.topic_id for topic in client.ask(MetadataRequest(topics=None)).topics if topic.name == "deep"]
        there, memory, is_over = There(["deep"], ids, PARTITIONS, "g"), list[float](), threading.Event()
        alone = sorted(round_trips_ms(node.address, 5))
        print(f"alone: {node.resident_mb:.0f} MB, p99 {alone[len(alone) * 99 // 100]:.1f} ms", flush=True)
        attack = Attack(node.address, stack)
        watching = threading.Thread(target=_watch, args=(node, is_over, memory))
        watching.start()
        for begin in (half_frames, unread_answers, lookups, tagged_fields):
            begin(attack)
        large_requests(attack, there)
        beside = sorted(round_trips_ms(node.address, seconds))
        attack.end()
        is_over.set()
        watching.join()
    print(
        f"attacked: at most {max(memory):.0f} MB, median {statistics.median(memory):.0f} MB; "
        f"{len(beside)} round trips, p50 {beside[len(beside) // 2]:.1f} ms, "
        f"p99 {beside[len(beside) * 99 // 100]:.1f} ms, at most {beside[-1]:.1f}"
    )


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20)
