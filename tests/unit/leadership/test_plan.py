"""The plan of leaders: racks, pins, brokers that are gone, and how much it changes."""

from collections import Counter

from penstock.leadership.plan import Partition, ideal_leaders, weights_by_rate

NO_RACKS = dict.fromkeys((1, 2, 3))


def on_all(count: int, *nodes: int) -> dict[Partition, list[int]]:
    return {("t", index): list(nodes) for index in range(count)}


def test_what_all_would_lead_on_one_is_spread_and_the_rest_stays() -> None:
    plan = ideal_leaders(on_all(6, 1, 2, 3), NO_RACKS)
    assert Counter(plan.values()) == {1: 2, 2: 2, 3: 2}
    even = {("t", index): [1 + index % 3, 1 + (index + 1) % 3] for index in range(6)}
    assert ideal_leaders(even, NO_RACKS) == {partition: nodes[0] for partition, nodes in even.items()}


def test_partitions_of_groups_are_planned_with_the_others() -> None:
    replicas = {("__consumer_offsets", 0): [1, 2], ("t", 0): [1, 2]}
    assert sorted(ideal_leaders(replicas, NO_RACKS).values()) == [1, 2]


def test_a_chain_reaches_a_broker_that_shares_nothing_with_the_fullest() -> None:
    replicas = {("t", 0): [1, 2], ("t", 1): [1], ("t", 2): [2, 3]}
    assert Counter(ideal_leaders(replicas, NO_RACKS).values()) == {1: 1, 2: 1, 3: 1}


def test_a_pin_holds_where_there_is_a_replica() -> None:
    replicas = on_all(3, 1, 2)
    plan = ideal_leaders(replicas, NO_RACKS, pinned={("t", 0): 2, ("t", 1): 2, ("t", 2): 3})
    assert (plan["t", 0], plan["t", 1], plan["t", 2]) == (2, 2, 1)


def test_who_is_not_registered_leads_nothing() -> None:
    plan = ideal_leaders({("t", 0): [9, 1], ("t", 1): [9, 8]}, NO_RACKS)
    assert plan == {("t", 0): 1, ("t", 1): 9}


def test_racks_decide_among_plans_that_are_equally_even() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    replicas = {("t", 0): [1, 3], ("t", 1): [2, 4]}
    plan = ideal_leaders(replicas, racks)
    assert sorted(racks[leader] for leader in plan.values()) == ["a", "b"]


def test_bytes_go_before_numbers() -> None:
    rates = {("t", 0): 9_000.0, ("t", 1): 100.0, ("t", 2): 100.0, ("t", 3): 0.0}
    plan = ideal_leaders(on_all(4, 1, 2), NO_RACKS, weights=weights_by_rate(rates))
    assert {leader for partition, leader in plan.items() if partition != ("t", 0)} == {3 - plan["t", 0]}
