"""A node under fire: bytes that are no requests, from many connections, while somebody else goes on with his work.

The node is a process of its own, as in production; what is seen of it is its answers, its memory and its log.
"""

from __future__ import annotations

import random
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.cluster.started import ANY_PORT, Started, started
from tests.property.protocol.samples import filled, mutated
from tests.wire.raw_client import Closed, RawClient, batch_of

from penstock.protocol.compression import Compression
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.requests.api import ApiKey, api_of
from penstock.protocol.requests.framing import encode_request
from penstock.protocol.varint import encode_uvarint
from penstock.testing.quorum_view import wait_until

FRAMES = 20_000
FRAMES_PER_CONNECTION = 2
SEED = 7
NEIGHBOUR = "neighbour"
PATIENCE_S = 60
MEGABYTE = 1 << 20
ALLOWED_GROWTH = 200 * MEGABYTE
NOW = int(time.time() * 1000)


class Neighbour(threading.Thread):
    """Produces all the while on a connection of its own, and notes what goes wrong."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.client = RawClient(bootstrap)
        self.client.create_topic(NEIGHBOUR)
        self.produced = 0
        self.errors: list[object] = []
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.is_set():
            try:
                answer = self.client.produce(NEIGHBOUR, batch_of(b"still here"))
            except (OSError, Closed) as error:
                self.errors.append(error)
                return
            if answer.error_code or answer.base_offset != self.produced:
                self.errors.append(answer)
                return
            self.produced += 1

    def has_produced_more(self, than: int) -> bool:
        """Or has ended."""
        return self.produced > than or not self.is_alive()


class Node:
    """The node, with its neighbour at work."""

    def __init__(self, process: Started) -> None:
        self.bootstrap = f"127.0.0.1:{process.port}"
        self.lines: list[str] = []
        """All that the node has said."""
        self.neighbour = Neighbour(self.bootstrap)
        self._process = psutil.Process(process.process.pid)
        assert process.process.stdout is not None
        threading.Thread(target=self.lines.extend, args=(process.process.stdout,), daemon=True).start()

    def connect(self) -> RawClient:
        return RawClient(self.bootstrap)

    def resident_bytes(self) -> int:
        return int(self._process.memory_info().rss)

    def peak_bytes(self) -> int:
        """The most memory that the process ever had."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024

    def refuses(self, data: bytes) -> None:
        """Send bytes and wait for the node to close."""
        with self.connect() as client:
            client.send_bytes(data)
            assert client.is_closed()

    def told(self) -> list[str]:
        """What the node has said of connections that it closed."""
        return [line for line in list(self.lines) if "closed: " in line]

    def faults(self) -> list[str]:
        """What the node blames on itself."""
        return [line for line in self.lines if "Traceback" in line or "Error" in line or "a request failed" in line]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    directory = tmp_path_factory.mktemp("bad-bytes")
    with started(directory, *ANY_PORT, "--set", "num.partitions=1") as process:
        node = Node(process)
        node.neighbour.start()
        yield node
        node.neighbour.done.set()
        node.neighbour.join()
        assert not node.neighbour.errors
        assert node.neighbour.produced > 0


@pytest.fixture(autouse=True)
def neighbour_notices_nothing(node: Node) -> Iterator[None]:
    yield
    seen = node.neighbour.produced
    wait_until(lambda: node.neighbour.has_produced_more(seen) or None, PATIENCE_S, "the neighbour goes on")
    assert not node.neighbour.errors


def header(key: int, version: int, *, is_flexible: bool = False) -> bytes:
    return struct.pack(">hhih", key, version, 1, -1) + b"\x00" * is_flexible


LIST_GROUPS = header(ApiKey.LIST_GROUPS, 5, is_flexible=True)
GARBAGE = {
    "longer than socket.request.max.bytes": struct.pack(">i", 104_857_601),
    "negative": struct.pack(">i", -1),
    "nothing": struct.pack(">i", 0),
    "garbage as header": struct.pack(">i", 40) + bytes(range(200, 240)),
    "unknown key": struct.pack(">i", 10) + header(999, 0),
    "absurd array": struct.pack(">i", len(LIST_GROUPS) + 6) + LIST_GROUPS + b"\xff\xff\xff\xff\x0f\x00",
    "absurd array of numbers": struct.pack(">i", 14) + header(ApiKey.DESCRIBE_GROUPS, 0) + b"\x7f\xff\xff\xff",
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
def test_garbage_closes_its_connection_and_is_told_once(node: Node, data: bytes) -> None:
    before = node.resident_bytes()
    for _ in range(20):
        node.refuses(data)
    wait_until(lambda: node.told() or None, PATIENCE_S, "the node tells of it")
    assert len(node.told()) <= len(GARBAGE)
    assert node.resident_bytes() < before + ALLOWED_GROWTH


def test_who_leaves_in_the_middle_of_a_frame_is_forgotten(node: Node) -> None:
    for _ in range(100):
        with node.connect() as client:
            client.send_bytes(struct.pack(">i", 50 * MEGABYTE) + header(ApiKey.PRODUCE, 12) + b"half")
    with node.connect() as client:
        assert client.lives()


def test_bytes_behind_a_message_are_answered_or_refused_but_never_shift_the_next(node: Node) -> None:
    request = encode_request(ApiVersionsRequest(), 0, 1, "raw")[4:]
    with node.connect() as client:
        client.send_frame(request + b"more")
        try:
            client.receive_frame()
            assert client.lives()
        except Closed:
            pass


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec], ids=lambda codec: codec.name)
@pytest.mark.parametrize("configs", [{"cleanup.policy": "compact"}, {"compression.type": "uncompressed"}, {}])
def test_a_bomb_does_not_unpack(node: Node, codec: Compression, configs: dict[str, str]) -> None:
    """Sixty-five megabytes and more of zeros, as dense as the codec can, against a limit of one."""
    name = f"bomb-{codec.name}-{len(configs)}-{'compact' in configs.values()}"
    size = 15 * MEGABYTE if codec == Compression.SNAPPY else 100 * MEGABYTE
    bomb = bytes(encode_batch([Record(0, NOW, b"k", bytes(size))], compression=codec))
    before = node.peak_bytes()
    with node.connect() as client:
        client.create_topic(name, configs=configs)
        code = client.produce(name, bomb).error_code
        partition = ListOffsetsPartition(partition_index=0, timestamp=NOW)
        wish = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=[partition])])
        found = client.ask(wish).topics[0].partitions[0]
        assert client.lives()
    assert found.error_code == ErrorCode.NONE
    is_kept = len(bomb) <= MEGABYTE and not configs
    is_within = codec == Compression.SNAPPY and "compact" in configs.values() and len(bomb) <= MEGABYTE
    assert code == (ErrorCode.NONE if is_kept or is_within else ErrorCode.MESSAGE_TOO_LARGE)
    assert found.offset == (0 if code == ErrorCode.NONE else -1)
    assert node.peak_bytes() < before + ALLOWED_GROWTH


TINY = {
    "groups": header(ApiKey.DELETE_GROUPS, 2, is_flexible=True) + encode_uvarint(10_000_001) + b"\x02a" * 10_000_000,
    "topics": header(ApiKey.DESCRIBE_PRODUCERS, 0, is_flexible=True)
    + encode_uvarint(10_000_001)
    + b"\x01\x01\x00" * 10_000_000,
    "produce": header(ApiKey.PRODUCE, 12, is_flexible=True)
    + b"\x00\x00\x01\x00\x00\x00\x00"
    + encode_uvarint(10_000_001)
    + b"\x01\x01\x00" * 10_000_000,
}


@pytest.mark.parametrize("body", TINY.values(), ids=TINY)
def test_tiny_structures_stay_small(node: Node, body: bytes) -> None:
    before = node.peak_bytes()
    with node.connect() as client:
        client.send_frame(body + b"\x00")
        assert client.is_closed()
    assert node.peak_bytes() < before + ALLOWED_GROWTH


def frames(count: int) -> Iterator[bytes]:
    """Requests of all APIs and versions with faults in them, the same ones each time."""
    source = random.Random(SEED)
    cases = [(key, version) for key in ApiKey for version in api_of(key).versions]
    whole = [encode_request(filled(api_of(key).request_class), version, 1, "fuzz")[4:] for key, version in cases]
    for _ in range(count):
        yield mutated(source.choice(whole), source)


def test_mutated_frames(node: Node) -> None:
    """A few to a connection, which is then read to its end: so the node has seen them all."""
    source = list(frames(FRAMES))
    for start in range(0, FRAMES, FRAMES_PER_CONNECTION):
        with node.connect() as client:
            client.send_bytes(
                b"".join(struct.pack(">i", len(f)) + f for f in source[start : start + FRAMES_PER_CONNECTION])
            )
            client.end()
    with node.connect() as survivor:
        assert survivor.lives()
    assert not node.faults()
