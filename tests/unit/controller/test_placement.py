import random
from collections import Counter
from uuid import UUID

import pytest

from penstock.controller.placement import place
from penstock.metadata.image import BrokerImage
from penstock.protocol.errors import ErrorCode, KafkaError


def broker(node_id: int, rack: str | None = None, *, fenced: bool = False) -> BrokerImage:
    return BrokerImage(node_id, 0, UUID(int=node_id), {}, rack, fenced, False, {}, ())


@pytest.mark.parametrize("seed", range(20))
def test_thirty_partitions_on_three_brokers_lead_ten_times_each(seed: int) -> None:
    replicas = place([broker(n) for n in (1, 2, 3)], 30, 3, random.Random(seed))
    assert Counter(assignment[0] for assignment in replicas) == {1: 10, 2: 10, 3: 10}
    assert all(sorted(assignment) == [1, 2, 3] for assignment in replicas)


@pytest.mark.parametrize("seed", range(20))
def test_racks_that_are_alike_share_leaders_evenly_and_no_partition_lies_in_one_rack(seed: int) -> None:
    brokers = [broker(1, "a"), broker(2, "a"), broker(3, "b"), broker(4, "b"), broker(5, "c"), broker(6, "c")]
    rack_of = {b.node_id: b.rack for b in brokers}
    replicas = place(brokers, 60, 3, random.Random(seed))
    leaders = Counter(assignment[0] for assignment in replicas)
    assert set(leaders.values()) == {10}
    assert all(len({rack_of[node] for node in assignment}) == 3 for assignment in replicas)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("replication_factor", [1, 2, 3, 4])
def test_no_broker_holds_a_partition_twice_and_no_fenced_one_leads(seed: int, replication_factor: int) -> None:
    brokers = [broker(1, "a"), broker(2, "a", fenced=True), broker(3, "b"), broker(4, None)]
    for assignment in place(brokers, 12, replication_factor, random.Random(seed)):
        assert len(assignment) == len(set(assignment)) == replication_factor
        assert assignment[0] != 2


def test_the_start_is_drawn() -> None:
    brokers = [broker(n) for n in range(8)]
    first = {place(brokers, 1, 1, random.Random(seed))[0][0] for seed in range(50)}
    assert len(first) > 4


def test_a_later_round_has_other_neighbours() -> None:
    replicas = place([broker(n) for n in range(6)], 60, 2, random.Random(1))
    assert len({tuple(assignment) for assignment in replicas}) > 6


@pytest.mark.parametrize(
    ("brokers", "reason"),
    [
        ([], "there are 0"),
        ([broker(1)], "there are 1"),
        ([broker(1, fenced=True), broker(2, fenced=True)], "fenced"),
    ],
)
def test_too_few_brokers(brokers: list[BrokerImage], reason: str) -> None:
    with pytest.raises(KafkaError, match=reason) as caught:
        place(brokers, 1, 2, random.Random(1))
    assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
