"""Bugs that are planted must be found: otherwise a simulation without violations proves nothing."""

import asyncio
import math

import pytest
from tests.simulation.storage_groups import clients
from tests.simulation.storage_groups.world import simulate

from penstock.leadership.lease import Holder
from penstock.log.producer_state import WrittenBatch
from penstock.log.producers_ahead import ProducersAhead
from penstock.node.quorum.stored_log import StoredLog
from penstock.node.storage_groups import group as storage_group
from penstock.node.storage_groups.group import StorageGroup
from penstock.protocol.batch import BatchHeader
from penstock.replication.storage_groups.entries import PartitionId

SEEDS = range(30)


def is_found(what: str, *faults: str) -> bool:
    """Whether one of some seeds finds this."""
    outcomes = (simulate(seed, faults=faults, seconds=10) for seed in SEEDS)
    return any(what in violation for outcome in outcomes for violation in outcome.violations)


def test_a_batch_that_is_acknowledged_before_the_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StoredLog, "flush", lambda log: None)
    assert is_found("was acknowledged", "power of all")


def test_a_batch_that_is_acknowledged_when_its_leader_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def acknowledged(group: StorageGroup, partition: PartitionId, last_offset: int) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    monkeypatch.setattr(StorageGroup, "acknowledged", acknowledged)
    assert is_found("was acknowledged", "power", "island")


def test_a_group_that_forgets_what_the_partitions_do_not_have_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_group, "flush_all", lambda logs: None)
    assert is_found("its disk has lost records", "power of all")


def test_a_replica_that_counts_before_it_has_copied_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object) -> None:
        pass

    monkeypatch.setattr(storage_group, "copy_missing", nothing)
    assert is_found("its disk has lost records", "power", "cut")


def test_a_leader_that_compares_a_batch_only_with_what_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(ahead: ProducersAhead, batch: memoryview, header: BatchHeader) -> WrittenBatch | None:
        return ahead._written.check(header)

    monkeypatch.setattr(ProducersAhead, "check", check)
    assert is_found("is there twice", "island", "slow")


def test_a_deposed_leader_that_lets_producers_wait_for_what_another_one_appends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def acknowledged(group: StorageGroup, partition: PartitionId, last_offset: int) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        group.partition(partition).committed.waits.add(last_offset + 1, lambda: done.set_result(None))
        return done

    monkeypatch.setattr(StorageGroup, "acknowledged", acknowledged)
    monkeypatch.setattr(StorageGroup, "_resign", lambda group: group.proposer.resign())
    monkeypatch.setattr(clients, "ATTEMPT_S", 10)  # they wait until the island is none any more
    assert is_found("was acknowledged", "island")


def test_a_lease_that_is_never_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Holder, "renewed", lambda holder, asked: setattr(holder, "until", math.inf))
    assert is_found("no order explains it", "island")
