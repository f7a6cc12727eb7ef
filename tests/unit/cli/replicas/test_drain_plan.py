"""Where the replicas of a broker go that is taken out of service."""

from collections import Counter
from collections.abc import Sequence

import click
import pytest

from penstock.cli.replicas.drain_plan import Racks, replacements
from penstock.client.values import TopicPartition

NO_RACKS: Racks = dict.fromkeys((1, 2, 3, 4))


def spread(partitions: int, *nodes: Sequence[int]) -> dict[TopicPartition, list[int]]:
    """Partitions with these replicas, one after the other and again from the first."""
    return {TopicPartition("t", index): list(nodes[index % len(nodes)]) for index in range(partitions)}


def test_only_what_is_on_the_broker_moves_and_the_others_keep_their_place() -> None:
    replicas = spread(3, (1, 2), (4, 1), (2, 4))
    plan = replacements(replicas, [4], NO_RACKS)
    assert sorted(partition.partition for partition in plan) == [1, 2]
    assert plan[TopicPartition("t", 1)][1] == 1
    assert plan[TopicPartition("t", 2)][0] == 2
    assert not any(4 in nodes for nodes in plan.values())


def test_replicas_and_leads_are_spread_evenly() -> None:
    replicas = spread(120, (4, 1), (4, 2), (4, 3))
    plan = replicas | replacements(replicas, [4], NO_RACKS)
    assert {*Counter(node for nodes in plan.values() for node in nodes).values()} == {80}
    assert max(Counter(nodes[0] for nodes in plan.values()).values()) <= 44


def test_who_leads_is_even_after_several_drains() -> None:
    nodes = (1, 2, 3, 4, 5, 6)
    replicas = spread(280, *((nodes[n], nodes[(n + 1) % 6], nodes[(n + 2) % 6]) for n in range(6)))
    for leaving in (4, 5):
        replicas |= replacements(replicas, [leaving], {node: None for node in nodes if node not in (4, leaving)})
    leads = Counter(nodes[0] for nodes in replicas.values())
    assert sorted(leads) == [1, 2, 3, 6]
    assert max(leads.values()) - min(leads.values()) <= 2


def test_a_replica_goes_to_a_rack_where_the_partition_has_none() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
    plan = replacements(spread(4, (1, 4)), [4], racks)
    assert {nodes[1] for nodes in plan.values()} == {3, 5}
    plan = replacements(spread(4, (1, 5, 4)), [4], racks)
    assert {nodes[2] for nodes in plan.values()} == {3}, "the other broker of its rack, though 2 has nothing"


def test_where_there_are_too_few_brokers_nothing_is_planned() -> None:
    with pytest.raises(click.ClickException, match="t-0 has 3 replicas, and 2 other brokers are in service"):
        replacements(spread(1, (1, 2, 3)), [3], dict.fromkeys((1, 2, 3)))


def test_a_broker_out_of_service_can_be_drained_and_gets_nothing() -> None:
    plan = replacements(spread(2, (1, 4)), [4], dict.fromkeys((1, 2)))
    assert list(plan.values()) == [[1, 2], [1, 2]]
