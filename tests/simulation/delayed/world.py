"""A partition whose records wait, on three brokers: kills, hand-overs, full disks, clocks that are set, deletions.

Who leads and who is in sync is decided here, at once and rightly: replication has simulations of its own. What is real
is all that delays are made of: the checks of a batch, the log in its files, and the node's delivery.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from unittest import mock

from tests.simulation.delayed.hosts import Host, SteppedAlarm
from tests.simulation.delayed.ledger import Ledger, Sent
from tests.simulation.replication_invariants import must

from penstock.metadata.topics import PartitionImage
from penstock.node.partitions import delayed
from penstock.node.partitions.partition import ALL_REPLICAS
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.value import Value
from penstock.replication.delayed import waiting

START_MS = 1_700_000_000_000
EVENTS = 500
HOUR_MS = 3_600_000
LONGEST_MS = 30_000
NOBODY = -1
PRODUCERS = 3
TRANSACTIONAL = 1
"""Of them."""


class Outcome(Value):
    acknowledged: int
    delivered: int
    epochs: int
    carried: int
    committed: int
    aborted: int
    copies: int


class World:
    def __init__(self, seed: int, path: Path) -> None:
        self.random = Random(seed)
        self.time_ms = START_MS
        count = self.random.choice((1, 3, 3))
        self.hosts = [self.host(number, path / str(number)) for number in range(count)]
        self.image = PartitionImage(NOBODY, 0, 0, tuple(range(count)), tuple(range(count)))
        self.ledger = Ledger(self.random, PRODUCERS, TRANSACTIONAL)
        self.read_to = self.copies = 0
        for host in self.hosts:
            host.boot()
        self.elect()

    def host(self, number: int, path: Path) -> Host:
        return Host(number, path, lambda: self.time_ms)

    # who leads

    @property
    def epoch(self) -> int:
        return self.image.leader_epoch

    @property
    def leader(self) -> Host | None:
        host = self.hosts[self.image.leader] if self.image.leader != NOBODY else None
        return host if host is not None and host.leads else None

    def elect(self) -> None:
        """One in sync that lives, if there is one."""
        able = [number for number in self.image.isr if self.hosts[number].partition is not None]
        leader = self.random.choice(able) if able else NOBODY
        self._decide(leader=leader, leader_epoch=self.image.leader_epoch + 1)

    def _decide(self, **changes: object) -> None:
        self.image = self.image._replace(partition_epoch=self.image.partition_epoch + 1, **changes)  # type: ignore[arg-type]
        if self.image.leader == NOBODY:
            return
        leader = self.hosts[self.image.leader]
        leader.obey(self.image)
        for host in self.hosts:
            if host is not leader and host.partition is not None:
                host.obey(self.image)
                if "leader" in changes:
                    host.follow(leader)

    def kill(self, host: Host) -> None:
        assert host.partition is not None
        host.high_watermark = self.random.randrange(host.high_watermark, host.partition.high_watermark + 1)
        host.kill()
        isr = tuple(number for number in self.image.isr if number != host.id) or self.image.isr
        if self.image.leader == host.id:
            self.image = self.image._replace(isr=isr)
            self.elect()
        elif isr != self.image.isr:
            self._decide(isr=isr)

    def boot(self, host: Host) -> None:
        host.boot()
        if self.image.leader == NOBODY:
            if host.id in self.image.isr:
                self.elect()
            return
        leader = self.leader
        assert leader is not None
        host.obey(self.image)
        host.follow(leader)

    def replicate(self) -> None:
        leader = self.leader
        if leader is None:
            return
        for host in self.hosts:
            if host is leader or host.partition is None or self.random.random() < 0.3:
                continue
            host.fetch(leader)
            if host.id not in self.image.isr and host.log.log_end_offset >= leader.log.log_end_offset:
                leader.partition.on_fetched(host.id, host.log.log_end_offset, 0, leader.now_ms())  # type: ignore[union-attr]
                self._decide(isr=(*self.image.isr, host.id))

    # who uses it

    def produce(self) -> None:
        leader = self.leader
        if leader is None:
            return
        self.send(leader, self.ledger.next(leader.now_ms(), LONGEST_MS))

    def send(self, leader: Host, sent: Sent) -> None:
        try:
            with as_full_as_it_is(leader):
                result = leader.append(sent.batch, acks=ALL_REPLICAS)
        except KafkaError:
            return
        self.ledger.appended(sent, self.epoch, result.base_offset)

    def acknowledge(self) -> None:
        leader = self.leader
        if leader is not None:
            assert leader.partition is not None
            self.ledger.acknowledge(self.epoch, leader.partition.high_watermark)

    def consume(self) -> None:
        leader = self.leader
        if leader is None:
            return
        assert leader.partition is not None
        end = leader.partition.high_watermark
        must(leader.log.log_start_offset <= self.read_to, "retention took what nobody had read")
        for batch, header in leader.batches(self.read_to, end):
            self.ledger.read(batch, header)
        self.read_to = max(self.read_to, end)

    def look_for_early(self, before: int, leader: Host) -> None:
        for batch, header in leader.batches(before, leader.log.log_end_offset):
            self.ledger.is_timely(batch, header, leader.now_ms())

    def ring(self) -> None:
        for host in self.hosts:
            if host.partition is None:
                continue
            before = host.log.log_end_offset
            with as_full_as_it_is(host):
                host.ring()
            if host.leads:
                self.look_for_early(before, host)

    def delete(self) -> None:
        """What was read may go, unless a producer still repeats it: a follower that begins behind does not know it."""
        self.consume()
        leader = self.leader
        if leader is not None and not self.ledger.repeats:
            assert leader.partition is not None
            leader.partition.delete_before(min(self.read_to, leader.partition.high_watermark))

    def retain(self) -> None:
        self.consume()
        for host in self.hosts:
            if host.partition is not None and self.leader is not None:
                host.retain()

    # from the beginning to the end

    def event(self) -> None:
        host = self.random.choice(self.hosts)
        kind = self.random.choices(
            ("produce", "replicate", "ring", "kill", "hand over", "full", "clock", "consume", "retain", "delete"),
            (30, 30, 30, 3, 2, 2, 2, 5, 3, 1),
        )[0]
        if kind == "kill":
            self.kill(host) if host.partition is not None else self.boot(host)
        elif kind == "hand over":
            self.elect()
        elif kind == "full":
            host.is_full = not host.is_full
        elif kind == "clock":
            host.skew_ms = self.random.choice((0, 0, 5_000, -5_000, HOUR_MS, -HOUR_MS))
        elif kind in ("produce", "replicate", "ring", "consume", "retain", "delete"):
            getattr(self, kind)()
        self.acknowledge()
        self.time_ms += self.random.choice((0, 0, 1, 10, 100, 1_500))

    def run(self) -> Outcome:
        for _ in range(EVENTS):
            self.event()
        self.heal()
        return Outcome(
            acknowledged=self.ledger.acknowledged_count,
            delivered=len(self.ledger.places),
            epochs=self.epoch,
            carried=self.ledger.carried,
            committed=self.ledger.committed,
            aborted=self.ledger.aborted,
            copies=self.copies,
        )

    def heal(self) -> None:
        """All live, all clocks are right, and all that waits is due."""
        for host in self.hosts:
            host.is_full, host.skew_ms = False, 0
            if host.partition is None:
                self.boot(host)
        leader = self.leader
        assert leader is not None
        self.acknowledge()
        for sent in self.ledger.ends(leader.now_ms()):
            self.send(leader, sent)
        for _ in range(3):
            self.time_ms += 2 * HOUR_MS
            for _ in range(60):
                self.ring()
                self.replicate()
                self.acknowledge()
                self.time_ms += 20
        self.consume()
        self.ledger.check_at_the_end()


@contextmanager
def as_full_as_it_is(host: Host) -> Iterator[None]:
    """While the disk is full nothing is appended to the host's log, by its own delivery either."""
    if not host.is_full:
        yield
        return
    error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")
    with mock.patch.object(type(host.log), "append_as_leader", side_effect=error):
        yield


class SimulationError(AssertionError):
    """Carries the seed and what went wrong."""


def simulate(seed: int, kind: type[World] = World) -> Outcome:
    """One seed to the end of healing. Raises SimulationError."""
    with (
        tempfile.TemporaryDirectory(prefix="delayed-") as path,
        mock.patch.object(delayed, "Alarm", SteppedAlarm),
        mock.patch.object(delayed, "CARRY_INTERVAL_MS", 3_000),
        mock.patch.object(waiting, "FEWEST", 2),
        mock.patch.object(waiting, "RUNS_OPEN_WITH", 0),
    ):
        try:
            return kind(seed, Path(path)).run()
        except Exception as error:
            raise SimulationError(f"seed {seed}: {type(error).__name__}: {error}") from error
