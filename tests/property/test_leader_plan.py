"""The plan of leaders against one that looks at all plans there are."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise, product

from hypothesis import given
from hypothesis import strategies as st

from penstock.leadership.plan import Partition, ideal_leaders, in_order, ranks_of, weights_by_rate

BROKERS = {1: "a", 2: "a", 3: "b", 4: "c", 5: None}
Replicas = dict[Partition, list[int]]


def squares(leaders: Mapping[Partition, int], weights: Mapping[Partition, int]) -> int:
    loads: Counter[int] = Counter()
    for partition, leader in leaders.items():
        loads[leader] += weights[partition]
    return sum(load * load for load in loads.values())


def every_plan(replicas: Replicas, pinned: Mapping[Partition, int]) -> list[dict[Partition, int]]:
    choices = [[pinned[one]] if pinned.get(one) in nodes else nodes for one, nodes in replicas.items()]
    return [dict(zip(replicas, chosen, strict=True)) for chosen in product(*choices)]


lists_of_replicas = st.lists(st.sampled_from([*BROKERS]), min_size=1, max_size=3, unique=True)
some_replicas = st.lists(lists_of_replicas, min_size=1, max_size=7).map(
    lambda rows: {(f"t{n % 2}", n): nodes for n, nodes in enumerate(rows)}
)


@st.composite
def pins(draw: st.DrawFn, replicas: Replicas) -> dict[Partition, int]:
    chosen = draw(st.lists(st.sampled_from([*replicas]), unique=True, max_size=3))
    return {partition: draw(st.sampled_from([*BROKERS])) for partition in chosen}


@given(st.data(), some_replicas)
def test_no_plan_by_count_is_more_even(data: st.DataObject, replicas: Replicas) -> None:
    pinned = data.draw(pins(replicas))
    weights = dict.fromkeys(replicas, 1)
    plan = ideal_leaders(replicas, BROKERS, pinned=pinned)
    plans = every_plan(replicas, pinned)
    assert plan in plans
    assert squares(plan, weights) == min(squares(other, weights) for other in plans)


@given(some_replicas, st.lists(st.integers(1, 1000), min_size=7, max_size=7))
def test_no_single_move_makes_a_plan_by_bytes_better(replicas: Replicas, sizes: Sequence[int]) -> None:
    weights = dict(zip(replicas, sizes, strict=False))
    plan = ideal_leaders(replicas, BROKERS, weights=weights)
    now = squares(plan, weights)
    assert now <= squares({partition: nodes[0] for partition, nodes in replicas.items()}, weights)
    for partition, nodes in replicas.items():
        assert all(squares(plan | {partition: node}, weights) >= now for node in nodes)


@given(lists_of_replicas, st.lists(st.sampled_from("abc"), unique=True))
def test_who_comes_after_the_leader_follows_the_order_of_racks(nodes: list[int], order: list[str]) -> None:
    leader, *others = in_order(nodes, nodes[-1], ranks_of(BROKERS, order))
    assert leader == nodes[-1]
    assert others == sorted(nodes[:-1], key=lambda node: (rank(node, order), nodes.index(node)))
    assert in_order(nodes, nodes[0], ranks_of(BROKERS, ())) == nodes, "all are alike: nothing changes"


def rank(node: int, order: Sequence[str]) -> int:
    rack = BROKERS[node]
    return order.index(rack) if rack in order else len(order)


@given(st.data(), some_replicas, st.lists(st.sampled_from("abc"), unique=True))
def test_each_is_led_in_the_first_rack_that_has_it_and_evenly_there(
    data: st.DataObject, replicas: Replicas, order: list[str]
) -> None:
    pinned = data.draw(pins(replicas))
    plan = ideal_leaders(replicas, BROKERS, pinned=pinned, ordered_racks=order)
    first = {one: min(rank(node, order) for node in nodes) for one, nodes in replicas.items()}
    able = {one: [node for node in nodes if rank(node, order) == first[one]] for one, nodes in replicas.items()}
    able |= {one: [node] for one, node in pinned.items() if node in replicas[one]}
    plans, weights = every_plan(able, {}), dict.fromkeys(replicas, 1)
    assert plan in plans
    assert squares(plan, weights) == min(squares(other, weights) for other in plans)


@given(some_replicas)
def test_a_plan_that_is_carried_out_stays(replicas: Replicas) -> None:
    plan = ideal_leaders(replicas, BROKERS)
    after = {partition: in_order(nodes, plan[partition]) for partition, nodes in replicas.items()}
    assert {one: sorted(nodes) for one, nodes in after.items()} == {one: sorted(it) for one, it in replicas.items()}
    assert ideal_leaders(after, BROKERS) == plan


@given(st.dictionaries(st.tuples(st.just("t"), st.integers(0, 50)), st.floats(0, 1e9), max_size=20))
def test_whatever_carries_more_weighs_no_less(rates: Mapping[Partition, float]) -> None:
    weights = weights_by_rate(rates)
    assert all(weight >= 1 for weight in weights.values())
    by_rate = sorted(rates, key=lambda partition: rates[partition])
    assert all(weights[one] <= weights[other] for one, other in pairwise(by_rate))
