"""Records that wait, by the million: memory and disk that they take, when they are ready again, how late they come.

Late is what the leader's own clock says: a delivered record has the time of its delivery. A record has 100 B and its
headers; a request has one batch of a thousand, not compressed, in which only the times differ from the last one.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.measure import Budget, Figures, percentile
from bench.process import BrokerProcess, penstock_command, running_node, scratch
from bench.round_trip import PAUSE_S, VALUE
from bench.topics import create_topic
from bench.wire import PRODUCE_VERSION, Wire, produce_frame, produce_request
from confluent_kafka import Consumer, TopicPartition

from penstock.protocol.batch import write_crc
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.records import Record, encode_batch
from penstock.testing.quorum_view import wait_until

TOPIC: Final = "reminders"
IN_A_BATCH: Final = 1_000
YEAR_MS: Final = 365 * 24 * 3_600_000
TAKEN_A_MS: Final = 20
"""Records. A machine that has very much else to do takes fewer, and cannot be asked."""
PATIENCE_S: Final = 900.0
TELL_EACH_S: Final = 10.0
LIST_VERSION: Final = 7
Times = Callable[[], int]
"""When the next record is due, in ms."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Template:
    """A batch whose times can be written over: all have 13 digits."""

    def __init__(self, header: str) -> None:
        marks = [b"%013d" % (10**12 + number) for number in range(IN_A_BATCH)]
        headers = [[(header, mark)] for mark in marks]
        records = [Record(0, now_ms(), b"user-%06d" % n, b"x" * 100, it) for n, it in enumerate(headers)]  # type: ignore[arg-type]
        self.batch = encode_batch(records)
        self._places = [self.batch.index(mark) for mark in marks]

    def with_times(self, due: Times) -> bytes:
        for place in self._places:
            self.batch[place : place + 13] = b"%013d" % due()
        write_crc(self.batch, 0, len(self.batch))
        return bytes(self.batch)


def tell(what: str) -> None:
    print(time.strftime("%H:%M:%S"), what, file=sys.stderr, flush=True)


def send(address: str, count: int, due: Times, topic: str = TOPIC, header: str = "penstock-deliver-at") -> int:
    """Acknowledged; returns the bytes of the batches."""
    template, size, told = Template(header), 0, time.monotonic()
    with Wire(address, PATIENCE_S) as wire:
        for sent in range(0, count, IN_A_BATCH):
            if time.monotonic() - told > TELL_EACH_S:
                told = time.monotonic()
                tell(f"{sent:,} of {count:,} records are taken")
            batch = template.with_times(due)
            size += len(batch)
            answer = wire.ask(produce_request(topic, batch), PRODUCE_VERSION)
            assert not answer.responses[0].partition_responses[0].error_code, answer
    return size


def end_of(address: str, topic: str = TOPIC) -> int:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
    with Wire(address, PATIENCE_S) as wire:
        return int(wire.ask(request, LIST_VERSION).topics[0].partitions[0].offset)


def waiting_topic(address: str) -> None:
    create_topic(address, TOPIC, config={"penstock.delay.enable": "true"})


def disk_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob(f"data/{TOPIC}-0/*.log"))


def until_some_come(address: str) -> None:
    """A batch more, due soon after its arrival, however long it is on its way, behind all that the log has."""
    end = end_of(address)
    send(address, IN_A_BATCH, lambda: 50, header="penstock-delay")
    wait_until(lambda: end_of(address) >= end + 2 * IN_A_BATCH or None, PATIENCE_S, "what is due")


def pending(figures: Figures, count: int) -> None:
    """With delays from a second to a year: beside an idle node, and after a kill."""
    name, chance = f"{count:,} that wait", random.Random(1)
    with scratch() as directory:
        with killed(directory) as node:
            waiting_topic(node.address)
            idle_mb = node.resident_mb
            begun = time.perf_counter()
            size = send(node.address, count, lambda: now_ms() + 1_000 + int(chance.random() * YEAR_MS))
            figures.add(f"{name}: taken", "records/s", count / (time.perf_counter() - begun))
            until_some_come(node.address)
            tell(f"{name}: all are taken, and what is due comes; now the node is killed")
            figures.add(f"{name}: memory beyond an idle node's", "MB", node.resident_mb - idle_mb, Budget(200))
            share = disk_bytes(directory) / size
            figures.add(f"{name}: on disk, of the bytes that were sent", "times", share, Budget(2))
        with killed(directory) as node:
            figures.add(f"{name}: from a start after kill -9 to the first answer", "s", node.boot_s)
            tell(f"{name}: the next node answers")
            until_some_come(node.address)
            ready_s = time.perf_counter() - node.started
            figures.add(f"{name}: from a start after kill -9 to the next delivery", "s", ready_s, Budget(10))
            figures.add(f"{name}: memory beyond idle after that", "MB", node.resident_mb - idle_mb, Budget(200))


@contextmanager
def killed(directory: Path) -> Iterator[BrokerProcess]:
    """A node, with kill -9 in the end."""
    node = BrokerProcess(penstock_command, directory, {})
    try:
        yield node
    finally:
        node.kill()


def delivered(address: str, first: int, count: int) -> Iterator[tuple[int, int]]:
    """When each was due, and when it came, in the order of the log."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "fetch.max.bytes": 50_000_000})
    consumer.assign([TopicPartition(TOPIC, 0, first)])
    while count:
        messages = consumer.consume(10_000, PATIENCE_S)
        for message in messages:
            headers = dict(message.headers() or [])
            yield int(headers["penstock-deliver-at"] or b""), message.timestamp()[1]
        assert messages, f"{count} records do not come"
        count -= len(messages)
    consumer.close()


ORDERS: Final = "as they came", "in disorder"


def spread(order: str, begin_ms: int, count: int, span_ms: int) -> Times:
    """All of them over so long a time."""
    numbers, chance = iter(range(count)), random.Random(1)
    if order == ORDERS[0]:
        return lambda: begin_ms + next(numbers) * span_ms // count
    return lambda: begin_ms + chance.randrange(span_ms)


def soon(count: int) -> int:
    """When so many records are there, in ms."""
    return now_ms() + 5_000 + count // TAKEN_A_MS


def send_before(address: str, count: int, due: Times, begin_ms: int) -> None:
    """What came later would not wait, and nothing is measured of it."""
    send(address, count, due)
    if now_ms() >= begin_ms:
        raise RuntimeError(f"{count:,} records were not taken before the first was due: the machine is too busy")
    tell(f"all {count:,} are taken, and are due from {(begin_ms - now_ms()) / 1e3:.0f} s on")


def rate(figures: Figures, a_second: int, seconds: int) -> None:
    """So many are due in each second, in the order of their arrival or in none."""
    count = a_second * seconds
    for order in ORDERS:
        with running_node() as node:
            waiting_topic(node.address)
            begin_ms = soon(count)
            send_before(node.address, count, spread(order, begin_ms, count, seconds * 1_000), begin_ms)
            late = [came - at for at, came in delivered(node.address, count, count)]
            assert min(late) >= 0, "one came early"
            name = f"{a_second:,} due a second, {order}: late"
            figures.add(f"{name}, p50", "ms", percentile(late, 50))
            figures.add(f"{name}, p99", "ms", percentile(late, 99), Budget(100))


def burst(figures: Figures, count: int) -> None:
    """All due in one second, in the order of their arrival or in none, beside small requests to another topic."""
    for order in ORDERS:
        with running_node() as node:
            waiting_topic(node.address)
            create_topic(node.address, "trips")
            begin_ms = soon(count)
            send_before(node.address, count, spread(order, begin_ms, count, 1_000), begin_ms)
            trips = list(_trips_until(node.address, begin_ms, 2 * count))
            tell(f"{count:,} due in one second, {order}: all have come")
            times = [came for _, came in delivered(node.address, count, count)]
            name, seconds = f"{count:,} due in one second, {order}", (max(times) - begin_ms) / 1e3
            figures.add(f"{name}: delivered", "records/s", count / seconds, Budget(50_000, "at least"))
            figures.add(f"{name}: a neighbour's round trip, p99", "ms", percentile(trips, 99), Budget(20))


def _trips_until(address: str, begin_ms: int, end_offset: int) -> Iterator[float]:
    frame, looked = produce_frame("trips", VALUE), 0.0
    time.sleep(max(0, begin_ms - now_ms()) / 1e3)
    until = time.monotonic() + PATIENCE_S
    with Wire(address) as wire:
        while time.monotonic() < until:
            time.sleep(PAUSE_S)
            yield wire.round_trip_ms(frame)
            if time.monotonic() - looked > 0.5:
                looked = time.monotonic()
                if end_of(address) >= end_offset:
                    return
    raise RuntimeError(f"what is due did not come within {PATIENCE_S:.0f} s")
