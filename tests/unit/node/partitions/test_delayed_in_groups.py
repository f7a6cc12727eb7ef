"""A leader that delivers what waits where a storage group replicates the log: what is under way."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from tests.simulation.delayed import group_world
from tests.simulation.delayed.group_world import PARTITION, GroupHost
from tests.simulation.delayed.hosts import SteppedAlarm
from tests.unit.node.partitions.test_delayed import NOW_MS, Headers

from penstock.log.config import LogConfig
from penstock.metadata.topics import PartitionImage
from penstock.node.partitions import delayed
from penstock.node.storage_groups import group as group_module
from penstock.protocol.records import Record, encode_batch, iterate_records
from penstock.replication.delayed import machine
from penstock.replication.storage_groups.entries import encode_proposal, opened

SOON: Headers = [("penstock-delay", b"100")]


class Lone:
    """One replica, which leads; what it has proposed is agreed on when the test says so."""

    def __init__(self, path: Path) -> None:
        agreed = [bytes(encode_proposal([opened(PARTITION, "t", 0)], 0))]
        world: Any = SimpleNamespace(time_ms=NOW_MS, agreed=agreed, committed=1, epoch=1, ledger=mock.Mock())
        world.image = PartitionImage(-1, 0, 0, (0,), (0,))
        self.world = world
        self.host = GroupHost(0, path / "broker", world)
        self.host.boot()
        self.host.group.leader_changed(0, 1)
        self.named = 0
        self.name()

    def name(self) -> None:
        """The metadata do, in a new epoch of the partition."""
        self.named += 1
        self.host.obey(PartitionImage(0, self.named, self.named, (0,), (0,)))

    def send(self, value: bytes, headers: Headers | None = None) -> None:
        record = Record(timestamp_ms=self.world.time_ms, key=b"k", value=value, headers=headers or [])
        self.host.append(bytes(encode_batch([record])), acks=-1)

    def propose(self, later_ms: int = 0) -> None:
        """What is to be done by then, too."""
        self.world.time_ms += later_ms
        for _ in range(100):
            if not self.host.ring():
                return
        pytest.fail("it finds no rest")

    def agree(self) -> None:
        self.host.apply(len(self.world.agreed))

    def run(self, later_ms: int = 0) -> None:
        for _ in range(3):
            self.propose(later_ms)
            self.agree()
            later_ms = 0
        self.propose()

    def values(self) -> list[bytes | None]:
        log, found = self.host.log, []
        for batch, header in self.host.batches(0, log.log_end_offset):
            if not header.is_control:
                found += [one.value for one in iterate_records(batch, 0, header)]
        return found


@pytest.fixture
def lone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lone:
    monkeypatch.setattr(delayed, "Alarm", SteppedAlarm)
    monkeypatch.setattr(group_module, "Alarm", SteppedAlarm)
    monkeypatch.setattr(group_world, "CONFIG", LogConfig(penstock_delay_enable=True))
    return Lone(tmp_path)


def test_who_is_named_anew_does_not_deliver_what_is_under_way_again(lone: Lone) -> None:
    lone.send(b"a", SOON)
    lone.run()
    lone.propose(100)
    lone.name()
    lone.run()
    assert lone.values() == [b"a"]


def test_who_is_named_anew_knows_what_was_under_way(lone: Lone) -> None:
    lone.send(b"a", SOON)
    lone.propose()
    lone.name()
    lone.send(b"b", SOON)
    lone.run()
    lone.run(100)
    assert lone.values() == [b"a", b"b"]


def test_what_is_due_comes_however_much_is_under_way(lone: Lone) -> None:
    lone.send(b"a", SOON)
    lone.run()
    lone.world.time_ms += 100
    for _ in range(5):
        lone.host.append(bytes(encode_batch([Record(timestamp_ms=NOW_MS, value=b"v")] * 10_000)), acks=-1)
        lone.propose()
        lone.host.apply(len(lone.world.agreed) - 1)
    assert b"a" in lone.values()


def test_what_is_due_waits_for_what_was_delivered_to_be_agreed_on(lone: Lone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MOST_MOVED", 1)
    monkeypatch.setattr(delayed, "MOST_UNDER_WAY", 3)
    for number in range(10):
        lone.send(b"%d" % number, SOON)
    lone.run()
    before = lone.host.partition.next_offset
    lone.propose(100)
    assert lone.host.partition.next_offset == before + 3
    for _ in range(4):
        lone.agree()
        lone.propose()
    assert lone.values() == [b"%d" % number for number in range(10)]


def test_what_was_proposed_is_kept_until_the_log_has_it(lone: Lone) -> None:
    """Also where delivery is far behind."""
    lone.run()
    delivery = lone.host.partition.delivery
    delivery.stop()
    for _ in range(20):
        lone.send(b"v", SOON)
        lone.propose()
        lone.agree()
    assert len(delivery._ahead) == 1
    lone.send(bytes(1_000))
    assert delivery._ahead[-1][0](1_000) == b"", "what holds nothing is passed over"
