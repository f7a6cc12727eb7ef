"""P1, P2, P3 and P10: how fast one broker takes and gives records, what that costs it, and what a bare loop would."""

import os
import socket
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from crc32c import crc32c

from bench.child import Child
from bench.load import IN_FLIGHT, LARGE, LARGE_FETCHES, ONE_BY_ONE, Load, Settings, produce, start_consuming, together
from bench.process import BrokerProcess, scratch
from bench.topics import create_topic, delete_topic
from bench.versus.systems import MB, Effort, Figure, Line, Sample, both, compared, sample_of

RATE = Figure("MB/s", "MB/s", "higher")
RECORDS = Figure("records/s", "records/s", "higher")
CPU = Figure("CPU ms/MB", "ms", "lower", limit=1.5)

BULK = ((1000, 1, 400_000), (1000, 12, 400_000), (100, 1, 2_000_000), (100, 12, 2_000_000))
"""(bytes of a record, partitions, records)"""

SMALL = (
    Figure("requests/s", "requests/s", "higher"),
    Figure("p50", "ms", "lower"),
    Figure("p99", "ms", "lower", bar=None),
    Figure("CPU µs/request", "µs", "lower"),
)
SMALL_CASES = ((1, 10_000), (5, 40_000), (50, 100_000))
"""(requests in flight, records)"""
FRAME = 250
"""The bytes of a request."""

CONSUMED_SIZE, CONSUMED_COUNT = 1000, 480_000
CONSUMED = ((1, 1), (12, 1), (1, 4), (12, 4))
"""(partitions, consumers): of one partition each consumer reads all, of twelve its share."""

COMPRESSED = (
    Figure("produce MB/s", "MB/s", "higher"),
    Figure("produce CPU ms/MB", "ms", "lower"),
    Figure("consume MB/s", "MB/s", "higher"),
    Figure("consume CPU ms/MB", "ms", "lower"),
)
COMPRESSED_SIZE, COMPRESSED_COUNT = 1000, 300_000


def bulk(effort: Effort) -> list[Line]:
    """P1: bulk produce, acks=1, in batches of 1 MB: how fast, and what does a MB cost the broker?"""
    cases, bare = {}, {}
    with both() as brokers, scratch() as directory:
        for size, partitions, count in BULK:
            records = effort.records(count)
            case = f"{size} B, {_plural(partitions, 'partition')}"
            cases[case] = partial(_bulk, records=records, size=size, partitions=partitions)
            total = records * size
            bare[case] = BareLoop(directory, "produce", total, MB, 5, total / MB, RATE.name, CPU.name)
        return compared(effort, "P1", (RATE, RECORDS, CPU), brokers, cases, bare)


def _bulk(broker: BrokerProcess, number: int, *, records: int, size: int, partitions: int) -> Sample:
    topic = f"bulk-{size}-{partitions}-{number}"
    create_topic(broker.address, topic, partitions)
    before = broker.cpu()
    load = produce(broker.address, topic, records, size, LARGE)
    used = (broker.cpu() - before).total
    delete_topic(broker.address, topic)
    return sample_of((RATE, RECORDS, CPU), load.mb_per_s, load.records_per_s, used * 1e3 / load.megabytes)


def small(effort: Effort) -> list[Line]:
    """P2: one record per request, 1, 5 and 50 requests in flight: how many requests, how fast are they answered?"""
    cases, bare = {}, {}
    with both() as brokers, scratch() as directory:
        for in_flight, count in SMALL_CASES:
            records, case = effort.records(count), f"{in_flight} in flight"
            cases[case] = partial(small_requests, records=records, in_flight=in_flight)
            bare[case] = BareLoop(
                directory, "produce", records * FRAME, FRAME, in_flight, records, SMALL[0].name, SMALL[3].name, 1e6
            )
        return compared(effort, "P2", SMALL, brokers, cases, bare)


def small_requests(broker: BrokerProcess, number: int, *, records: int, in_flight: int) -> Sample:
    """With a new topic of one partition, which is deleted."""
    topic = f"small-{in_flight}-{number}"
    create_topic(broker.address, topic)
    before = broker.cpu()
    given = {**ONE_BY_ONE, IN_FLIGHT: in_flight, **broker.clients}
    load = produce(broker.address, topic, records, 100, given, round_trips=True)
    used = (broker.cpu() - before).total
    delete_topic(broker.address, topic)
    return sample_of(SMALL, load.records_per_s, load.p50_ms, load.p99_ms, used * 1e6 / load.records)


def consumed(effort: Effort) -> list[Line]:
    """P3: consume from the page cache: how fast, and what does a MB cost the broker?"""
    records = effort.records(CONSUMED_COUNT)
    total = records * CONSUMED_SIZE
    with both() as brokers, scratch() as directory:
        for broker in brokers.values():
            for partitions in (1, 12):
                create_topic(broker.address, f"read-{partitions}", partitions)
                settings = {**LARGE, "sticky.partitioning.linger.ms": 0}
                produce(broker.address, f"read-{partitions}", records, CONSUMED_SIZE, settings)
        limit = BareLoop(directory, "fetch", total, MB, 1, total / MB, RATE.name, CPU.name)
        cases = {
            f"{_plural(partitions, 'partition')}, {_plural(consumers, 'consumer')}": partial(
                _consumed, records=records, partitions=partitions, consumers=consumers
            )
            for partitions, consumers in CONSUMED
        }
        return compared(effort, "P3", (RATE, CPU), brokers, cases, dict.fromkeys(cases, limit))


def _consumed(broker: BrokerProcess, number: int, *, records: int, partitions: int, consumers: int) -> Sample:
    shares = [range(partitions)[first::consumers] or range(partitions) for first in range(consumers)]
    before = broker.cpu()
    # The last few records of a partition may be fewer than an even share: ask for a little less than all.
    asked = [int(records * len(share) / partitions * 0.97) for share in shares]
    started = [
        start_consuming(broker.address, f"read-{partitions}", count, CONSUMED_SIZE, LARGE_FETCHES, share)
        for count, share in zip(asked, shares, strict=True)
    ]
    load: Load = together([one.result() for one in started])
    used = (broker.cpu() - before).total
    return sample_of((RATE, CPU), load.mb_per_s, used * 1e3 / load.megabytes)


def compressed(effort: Effort) -> list[Line]:
    """P10: compressed batches: does the broker pass them through, or does it pay for what the clients compressed?"""
    records = effort.records(COMPRESSED_COUNT)
    with both() as brokers:
        cases = {
            codec: partial(passed, records=records, given={"compression.type": codec}) for codec in ("lz4", "zstd")
        }
        return compared(effort, "P10", COMPRESSED, brokers, cases)


def passed(broker: BrokerProcess, number: int, *, records: int, given: Settings) -> Sample:
    """Records of text to a new topic, and from there to a consumer."""
    address, topic, over = broker.address, f"passed-{'-'.join(map(str, given.values()))}-{number}", broker.clients
    create_topic(address, topic)
    begun = broker.cpu()
    sent = produce(address, topic, records, COMPRESSED_SIZE, {**LARGE, **given, **over}, text=True)
    middle = broker.cpu()
    taken = start_consuming(address, topic, records, COMPRESSED_SIZE, {**LARGE_FETCHES, **over}).result()
    costs = [(middle - begun).total * 1e3 / sent.megabytes, (broker.cpu() - middle).total * 1e3 / taken.megabytes]
    delete_topic(address, topic)
    return sample_of(COMPRESSED, sent.mb_per_s, costs[0], taken.mb_per_s, costs[1])


def _plural(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count > 1)}"


REPLY = bytes(60)
REQUEST = bytes(100)
ROOM = 2**16


def receive(connection: socket.socket, into: memoryview) -> None:
    filled = 0
    while filled < len(into):
        got = connection.recv_into(into[filled:])
        if not got:
            raise EOFError
        filled += got


def serve_produce(connection: socket.socket, file: int, total: int, frame: int) -> None:
    """Receive, checksum, write, answer; a frame that fits is taken with those that came with it."""
    buffer = memoryview(bytearray(max(frame, ROOM)))
    done = filled = 0
    while done < total:
        if frame > ROOM:
            receive(connection, buffer[:frame])
            filled = frame
        else:
            filled += connection.recv_into(buffer[filled:])
        position = 0
        while filled - position >= frame:
            records = buffer[position : position + frame]
            crc32c(records)
            os.write(file, records)
            position += frame
        connection.sendall(REPLY * (position // frame))
        buffer[: filled - position] = bytes(buffer[position:filled])
        done += position
        filled -= position


def ask_produce(connection: socket.socket, total: int, frame: int, window: int) -> None:
    """Keep `window` frames in flight."""
    payload = memoryview(b"x" * frame * window)
    connection.sendall(payload)
    left, half = total // frame - window, 0
    answered = 0
    while answered < total // frame:
        half += len(connection.recv(ROOM))
        replies, half = divmod(half, len(REPLY))
        answered += replies
        more = min(replies, left)
        if more:
            connection.sendall(payload[: more * frame])
            left -= more


def serve_fetch(connection: socket.socket, file: int, total: int, frame: int) -> None:
    request = memoryview(bytearray(len(REQUEST)))
    for position in range(0, total, frame):
        receive(connection, request)
        connection.sendall(os.pread(file, frame, position))


def ask_fetch(connection: socket.socket, total: int, frame: int, window: int) -> None:
    into = memoryview(bytearray(frame))
    for _ in range(total // frame):
        connection.sendall(REQUEST)
        receive(connection, into)


@dataclass(frozen=True, slots=True)
class BareLoop:
    """The system calls that a broker cannot do without, on primitives in C: a bound on its cost, and no broker.

    Takes its turn between the brokers. Its files stay until the end, as those of the brokers do for a while, so all
    of them write to memory of the same kind.

    It gives two figures: how much of `amount` a second, and how many times `1 / unit` CPU seconds a part of it takes.
    """

    directory: Path
    kind: str
    total: int
    frame: int
    window: int
    amount: float
    rate: str
    cost: str
    unit: float = 1e3

    def __call__(self, number: int) -> Sample:
        new = tempfile.mkdtemp(dir=self.directory) if self.kind == "produce" else self.directory
        call = Child(_looped, self.kind, self.total, self.frame, self.window, Path(new) / "bare.log")
        seconds, cpu_s = call.result()
        return {self.rate: self.amount / seconds, self.cost: cpu_s * self.unit / self.amount}


def _looped(kind: str, total: int, frame: int, window: int, path: Path) -> tuple[float, float]:
    """Serve in this process, ask in a fork of it: seconds, and CPU seconds."""
    total = total // frame * frame
    serve, ask = (serve_produce, ask_produce) if kind == "produce" else (serve_fetch, ask_fetch)
    listening = socket.create_server(("127.0.0.1", 0))
    with path.open("ab+") as file:
        if kind == "fetch" and path.stat().st_size == 0:
            for _ in range(total // frame):
                file.write(bytes(frame))
            file.flush()
        if os.fork() == 0:
            with socket.create_connection(listening.getsockname()) as asking:
                asking.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                ask(asking, total, frame, window)
            os._exit(0)
        connection, _ = listening.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun, cpu = time.perf_counter(), time.process_time()
        serve(connection, file.fileno(), total, frame)
        found = time.perf_counter() - begun, time.process_time() - cpu
        os.wait()
    return found
