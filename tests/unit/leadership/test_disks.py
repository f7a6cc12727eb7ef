"""Replicas over the disks of one broker."""

from collections import Counter

from penstock.leadership.disks import Disk, spread_over_disks
from penstock.leadership.plan import Partition


def disk(path: str, total: int, partitions: range = range(0), *, is_open: bool = True) -> Disk[Partition]:
    return Disk(path, total, 10, {("t", number): 100 for number in partitions}, is_open)


def test_a_new_disk_gets_its_part_by_its_size() -> None:
    found = spread_over_disks([disk("/a", 1000, range(12)), disk("/b", 2000)], {})
    assert Counter(place for (place,) in found.targets.values()) == {1: 8}
    assert found.left == []


def test_what_is_written_is_spread_as_well() -> None:
    disks = [disk("/a", 1000, range(4)), disk("/b", 1000, range(4, 8))]
    rates = {("t", number): 50.0 for number in range(4)}
    found = spread_over_disks(disks, rates)
    assert Counter(place for (place,) in found.targets.values()) == {0: 2, 1: 2}, "two are exchanged for two"


def test_a_disk_that_is_cordoned_or_unknown_gets_nothing() -> None:
    disks = [disk("/a", 1000, range(8)), disk("/b", 1000, is_open=False), disk("/c", -1, is_open=False)]
    assert spread_over_disks(disks, {}).targets == {}
    assert spread_over_disks([disk("/a", -1, range(8)), disk("/b", 1000)], {}).targets == {}


def test_what_is_fixed_stays() -> None:
    disks = [disk("/a", 1000, range(8)), disk("/b", 1000)]
    found = spread_over_disks(disks, {}, fixed=[("t", number) for number in range(6)])
    assert found.targets == {("t", 6): [1], ("t", 7): [1]}


def test_a_disk_has_a_size_if_it_is_told() -> None:
    sizes = ((1, 0), (1, 1), (100, 30), (0, 0), (-1, 5), (5, -1), (-1, -1))
    disks = [Disk[Partition]("d", total, usable, {}) for total, usable in sizes]
    assert [one.is_known for one in disks] == [True, True, True, False, False, False, False]
    assert [one.excess(0.5) for one in disks[:3]] == [0.5, -0.5, 20.0]
