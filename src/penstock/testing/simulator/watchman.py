"""Looks at a whole cluster now and then, while faults happen."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from penstock.testing.simulator.disk import DiskConditions
from penstock.testing.simulator.full_disks import FullDisks
from penstock.testing.simulator.ledger import Ledger
from penstock.testing.simulator.machine import Machine
from penstock.testing.simulator.network import Network
from penstock.testing.simulator.views import partitions_of

LOOK_S = 0.5
LOOKS_AT_REPLICAS = 5
PATIENCE_S = 5.0
"""What a controller may take to fence a broker whose session is over: it has to commit that."""


async def watch(machines: Sequence[Machine], network: Network, ledger: Ledger, session_s: float) -> None:
    """For ever: metadata logs match, brokers that are away are fenced, and what lies on full disks is given up."""
    full_disks = FullDisks(machines, network, ledger.violated)
    while True:
        for _ in range(LOOKS_AT_REPLICAS):
            await asyncio.sleep(LOOK_S / LOOKS_AT_REPLICAS)
            check_replicas(machines, ledger)
            full_disks.look(network.loop.moment)
        check_logs(machines)
        for overlooked in _overlooked(machines, session_s + PATIENCE_S):
            ledger.violated(overlooked)
            return


def check_logs(machines: Sequence[Machine]) -> None:
    """Of running nodes; one whose disk has failed is about to end."""
    for machine in machines:
        if machine.is_up and not machine.is_paused and not machine.observer.has_failed:
            with _whatever_the_disk_does(machine):
                machine.observer.check_log()


def check_replicas(machines: Sequence[Machine], ledger: Ledger) -> None:
    """All but those whose files a thread has at the moment: they are looked at when it is done."""
    ledger.look_at_weak()
    for machine in machines:
        ledger.leader_claims.look_anew(machine)
    for machine in machines:
        if machine.node is None or not machine.is_up or machine.is_paused:
            continue
        with _whatever_the_disk_does(machine):
            for partition in list(partitions_of(machine.node)):
                if not partition.log.is_lent:
                    ledger.look_at_replica(machine.name, partition)


@contextmanager
def _whatever_the_disk_does(machine: Machine) -> Iterator[None]:
    """A look must not meet the faults of the disk: the node would learn of them by that."""
    disk = machine.disk
    before = disk.conditions, disk.crash_in, disk.error_in
    disk.conditions, disk.crash_in, disk.error_in = DiskConditions(), None, None
    try:
        yield
    finally:
        disk.conditions, disk.crash_in, disk.error_in = before


def _overlooked(machines: Sequence[Machine], limit_s: float) -> Iterator[str]:
    now = asyncio.get_running_loop().time()
    for controller in machines:
        since = controller.observer.controls_since
        if since is None or controller.is_paused or controller.node is None or controller.has_bad_disk:
            continue
        since = max(since, controller.disk_healed_at)
        for machine in machines:
            if machine.away_since is None or now - max(machine.away_since, since) < limit_s:
                continue
            broker = controller.observer.image.brokers.get(machine.plan.node_id)
            if broker is not None and not broker.fenced:
                yield f"{machine.name} is away for {now - machine.away_since:.1f} s, {controller.name} did not fence it"
