"""A leader whose disk takes nothing goes, where another replica in sync has room and nothing else is wrong."""

from collections.abc import Callable, Iterator, Sequence

from penstock.node.partitions.partition import Partition
from penstock.testing.simulator.disk import DiskConditions
from penstock.testing.simulator.machine import Machine
from penstock.testing.simulator.network import Network
from penstock.testing.simulator.views import partitions_of

PATIENCE_S = 6.0
"""A hand-over may have to be tried again, and a coordinator has its members commit before."""

Lead = tuple[str, str, int, int]
"""A node, a partition that it leads, and in which epoch."""


class FullDisks:
    """`violated` is told of a leader that keeps what it cannot write."""

    def __init__(self, machines: Sequence[Machine], network: Network, violated: Callable[[str], None]) -> None:
        self._machines = machines
        self._network = network
        self._violated = violated
        self._refusals: dict[Lead, int] = {}
        self._since: dict[Lead, float] = {}

    def look(self, now: float) -> None:
        if not self._is_well():
            self._refusals, self._since = {}, {}
            return
        refusals, since = self._refusals, self._since
        self._refusals, self._since = {}, {}
        for machine, partition in self._on_full_disks():
            lead = machine.name, partition.topic, partition.index, partition.leader_epoch
            count = machine.disk.refusals[partition.log.directory]
            self._refusals[lead] = refusals.get(lead, count)
            if count == self._refusals[lead]:
                continue
            self._since[lead] = since.get(lead, now)
            if now - self._since[lead] > PATIENCE_S:
                self._violated(f"{machine.name} leads {partition}, which it cannot write, and others could")

    def _is_well(self) -> bool:
        """Nothing but disks that are full keeps anybody from working."""
        machines, conditions = self._machines, self._network.conditions
        return (
            not conditions.cut
            and not conditions.slow
            and sum(machine.observer.controls_since is not None for machine in machines) == 1
            and all(machine.is_up and machine.node is not None and not machine.is_paused for machine in machines)
            and all(_works(machine.disk.conditions) for machine in machines)
        )

    def _on_full_disks(self) -> Iterator[tuple[Machine, Partition]]:
        """What is led there, and could be led elsewhere."""
        with_room = {machine.plan.node_id for machine in self._machines if not machine.has_bad_disk}
        for machine in self._machines:
            if machine.node is None or not machine.disk.conditions.full_disks:
                continue
            for partition in list(partitions_of(machine.node)):
                leader = partition.leader
                is_full = machine.disk.is_full(partition.log.parent.strip("/"))
                if partition.owns_log and leader is not None and is_full and with_room.intersection(leader.isr):
                    yield machine, partition


def _works(conditions: DiskConditions) -> bool:
    return conditions == DiskConditions(full_disks=conditions.full_disks)
