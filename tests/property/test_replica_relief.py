"""What leaves disks that are nearly full: properties of every plan, and some plans one can see through."""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from penstock.leadership.disks import Disk
from penstock.leadership.plan import Partition
from penstock.leadership.relief import Overfull, Relief, relieve

RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: None}
AWAY = 9
MOST = 0.8
Disks = dict[int, list[Disk[Partition]]]
Replicas = Mapping[Partition, Sequence[int]]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[dict[Partition, list[int]], Disks]:
    """Brokers with one or two disks of 1000, and what lies on them; some of it is of no partition."""
    nodes = st.lists(st.sampled_from([*RACKS, AWAY]), min_size=1, max_size=3, unique=True)
    replicas: dict[Partition, list[int]] = {("t", n): its for n, its in enumerate(draw(st.lists(nodes, max_size=14)))}
    disks: Disks = {}
    for node in RACKS:
        held: list[dict[Partition, int]] = [{} for _ in range(draw(st.integers(1, 2)))]
        for one, its in replicas.items():
            if node in its:
                draw(st.sampled_from(held))[one] = draw(st.integers(0, 200))
        disks[node] = []
        for number, its_held in enumerate(held):
            usable = draw(st.integers(0, max(1000 - sum(its_held.values()), 0)))
            total = draw(st.sampled_from([1000, 1000, 1000, -1]))
            disks[node].append(Disk(f"/{number}", total, usable, its_held, draw(st.booleans())))
    return replicas, disks


def leaving(disk: Disk[Partition], node: int, plan: Relief[Partition]) -> list[int]:
    return [size for one, size in disk.held.items() if node not in plan.targets.get(one, [node])]


@given(clusters())
def test_just_enough_leaves_each_disk(cluster: tuple[dict[Partition, list[int]], Disks]) -> None:
    replicas, disks = cluster
    plan = relieve(replicas, disks, RACKS, most=MOST)
    left = {(it.broker, it.path): it.excess_bytes for it in plan.left}
    for node, its in disks.items():
        for disk in its:
            gone = leaving(disk, node, plan)
            if not disk.is_known or disk.excess(MOST) <= 0:
                assert gone == []
            elif (node, disk.path) in left:
                assert left[node, disk.path] == round(disk.excess(MOST) - sum(gone)) > 0
            else:
                assert sum(gone) >= disk.excess(MOST) > sum(gone) - min(gone), "none of them could stay"


@given(clusters())
def test_partitions_keep_their_replicas_and_racks_and_brokers_do_not_become_full(
    cluster: tuple[dict[Partition, list[int]], Disks],
) -> None:
    replicas, disks = cluster
    plan = relieve(replicas, disks, RACKS, most=MOST)
    comes = dict.fromkeys(RACKS, 0)
    for one, nodes in plan.targets.items():
        before = replicas[one]
        assert len(set(nodes)) == len(nodes) == len(before)
        assert len({RACKS[node] for node in nodes}) >= len({RACKS[node] for node in before})
        assert AWAY not in before, "it stays where it is"
        goes = dict(zip(before, nodes, strict=True))
        for giver, taker in goes.items():
            if giver != taker:
                comes[taker] += next(disk.held[one] for disk in disks[giver] if one in disk.held)
    for node, more in comes.items():
        open_ones = [disk for disk in disks[node] if disk.is_open]
        assert not more or (open_ones and all(disk.is_known and disk.excess(MOST) + more <= 0 for disk in open_ones))


def disk(usable: int, **held: int) -> list[Disk[Partition]]:
    return [Disk("/d", 1000, usable, {(name, 0): size for name, size in held.items()})]


NO_RACKS: dict[int, None] = dict.fromkeys((1, 2, 3))


def test_the_smallest_that_is_enough_goes_to_the_broker_with_the_most_room() -> None:
    replicas: Replicas = {("a", 0): [1, 2], ("b", 0): [1, 2], ("c", 0): [1, 2]}
    disks = {1: disk(50, a=500, b=160, c=290), 2: disk(1000), 3: disk(900)}
    assert relieve(replicas, disks, NO_RACKS, most=MOST) == Relief({("b", 0): [3, 2]}, [])
    just_enough = {1: disk(50, a=500, b=160, c=150), 2: disk(1000), 3: disk(900)}
    assert relieve(replicas, just_enough, NO_RACKS, most=MOST) == Relief({("c", 0): [3, 2]}, [])


def test_the_largest_goes_where_none_is_enough() -> None:
    replicas: Replicas = {(name, 0): [1] for name in "abcd"}
    disks = {1: disk(0, a=100, b=90, c=20, d=5), 2: disk(1000)}
    assert relieve(replicas, disks, {1: None, 2: None}, most=MOST).targets == {
        ("a", 0): [2],
        ("b", 0): [2],
        ("c", 0): [2],
    }


def test_each_that_comes_takes_room() -> None:
    replicas: Replicas = {("a", 0): [1], ("b", 0): [1]}
    disks = {1: disk(0, a=150, b=140), 2: disk(400), 3: disk(390)}
    assert relieve(replicas, disks, NO_RACKS, most=MOST).targets == {("a", 0): [2], ("b", 0): [3]}


def test_a_partition_stays_in_its_racks() -> None:
    disks = {1: disk(100, a=200), 2: disk(500), 3: disk(500), 4: disk(900)}
    assert relieve({("a", 0): [1, 3]}, disks, RACKS, most=MOST).targets == {("a", 0): [2, 3]}


def test_what_finds_no_room_is_told() -> None:
    replicas: Replicas = {("a", 0): [1], ("b", 0): [1]}
    disks = {1: disk(0, a=700, b=60), 2: disk(300)}
    plan = relieve(replicas, disks, {1: None, 2: None}, most=MOST)
    assert plan == Relief({("b", 0): [2]}, [Overfull(1, "/d", 140)])


def test_what_is_empty_or_lies_there_no_more_frees_nothing() -> None:
    replicas: Replicas = {("a", 0): [1], ("b", 0): [1], ("c", 0): [2]}
    disks = {1: disk(0, a=0, b=900, c=300, d=300), 2: disk(900)}
    assert relieve(replicas, disks, {1: None, 2: None}, most=MOST) == Relief({}, [Overfull(1, "/d", 200)])


def test_the_fullest_disk_by_its_size_comes_first_and_what_has_just_enough_room_takes() -> None:
    replicas: Replicas = {("a", 0): [1], ("b", 0): [2]}
    small = [Disk("/d", 100, 0, {("a", 0): 60})]
    large = [Disk("/d", 1000, 100, {("b", 0): 150})]
    disks = {1: small, 2: large, 3: disk(260)}
    assert relieve(replicas, disks, NO_RACKS, most=MOST) == Relief({("a", 0): [3]}, [Overfull(2, "/d", 100)])
    for usable, targets in ((349, {}), (350, {("b", 0): [3]})):
        assert relieve({("b", 0): [2]}, {2: large, 3: disk(usable)}, NO_RACKS, most=MOST).targets == targets
    assert relieve({("b", 0): [2]}, {2: [large[0].replace(usable_bytes=200)], 3: disk(900)}, NO_RACKS, most=MOST) == (
        Relief({}, [])
    )
