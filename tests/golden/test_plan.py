"""The transcript of the plan of leaders."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from penstock.leadership.plan import Partition, ideal_leaders, in_order, weights_by_rate


class PlanLecture:
    """`execute` makes the plan what is preferred; `carries` gives bytes a second, after which it goes by these."""

    def handle(self, line: str) -> Iterable[str]:
        command, *words = line.split()
        return list(getattr(self, f"_{command.replace('-', '_')}")(*words))

    def _brokers(self, *brokers: str) -> Iterator[str]:
        """Each by its id, or `id=rack`."""
        self.racks = {int(node): rack or None for node, _, rack in (one.partition("=") for one in brokers)}
        self.replicas: dict[Partition, list[int]] = {}
        self.counts: dict[Partition, int] = {}
        self.rates: dict[Partition, float] = {}
        self.pinned: dict[Partition, int] = {}
        self.ordered_racks: tuple[str, ...] = ()
        return iter(())

    def _topic(self, name: str, *partitions: str) -> Iterator[str]:
        """The replicas of each partition, who is preferred first."""
        for index, nodes in enumerate(partitions):
            self.replicas[name, index] = [int(node) for node in nodes.split(",")]
            self.counts[name, index] = 1
        return iter(())

    def _holds(self, partition: str, count: str) -> Iterator[str]:
        self.counts[self._named(partition)] = int(count)
        return iter(())

    def _carries(self, partition: str, rate: str) -> Iterator[str]:
        self.rates[self._named(partition)] = float(rate)
        return iter(())

    def _pin(self, partition: str, broker: str) -> Iterator[str]:
        self.pinned[self._named(partition)] = int(broker)
        return iter(())

    def _ordered_racks(self, *racks: str) -> Iterator[str]:
        self.ordered_racks = racks
        return iter(())

    def _plan(self) -> Iterator[str]:
        ideal, leads = self._ideal(), Counter[int]()
        for partition, leader in sorted(ideal.items()):
            leads[leader] += self.counts[partition]
            before = self.replicas[partition][0]
            if leader != before:
                yield f"{partition[0]}-{partition[1]} from {before} to {leader}"
        yield "leads: " + ", ".join(f"{node} {leads[node]}" for node in sorted(self.racks))

    def _execute(self) -> Iterator[str]:
        for partition, leader in self._ideal().items():
            self.replicas[partition] = in_order(self.replicas[partition], leader)
        return iter(())

    def _ideal(self) -> dict[Partition, int]:
        rates = {one: self.rates.get(one, 0.0) for one in self.replicas}
        weights = weights_by_rate(rates) if self.rates else self.counts
        return ideal_leaders(
            self.replicas, self.racks, weights=weights, pinned=self.pinned, ordered_racks=self.ordered_racks
        )

    @staticmethod
    def _named(text: str) -> Partition:
        name, _, index = text.rpartition("-")
        return name, int(index)


def test_lecture(transcript: Callable[[str, Callable[[str], Iterable[object]]], None]) -> None:
    transcript("plan.txt", PlanLecture().handle)
