"""What must come about by itself when all is healed."""

import asyncio
from collections.abc import Iterator, Sequence

from penstock.client.values import TopicPartition
from penstock.leadership.transfer import HOLDING
from penstock.metadata.partition_index import each
from penstock.node.storage_groups.hand_over import StorageGroupHandOver
from penstock.testing.simulator.clients import ProducingClient
from penstock.testing.simulator.ledger import Ledger
from penstock.testing.simulator.machine import Machine
from penstock.testing.simulator.trace import Trace
from penstock.testing.simulator.views import image_of, partitions_of

PROGRESS_LIMIT_S = 90.0
LOOK_S = 0.25


async def look_for_progress(
    machines: Sequence[Machine],
    producers: Sequence[ProducingClient],
    groups: Sequence[str],
    ledger: Ledger,
    trace: Trace,
    *,
    balances_leaders: bool,
) -> None:
    """One controller, all brokers serve, producers get acknowledgements, and groups catch up with a moment from now;
    all moves and hand-overs end, and preferred leaders lead, where the controller sees to it.
    """
    loop = asyncio.get_running_loop()
    before = [producer.acknowledged for producer in producers]
    versions, committed = ledger.promises.versions(), ledger.agreement.committed
    ends = _ends(machines, ledger)
    deadline = loop.time() + PROGRESS_LIMIT_S
    while loop.time() < deadline:
        unread = {where: end for where, end in ends.items() if _start(machines, where) < end}
        late = [*_late_nodes(machines, committed), *_late_clients(producers, before, groups, unread, ledger)]
        if balances_leaders:
            late += _led_by_others(machines)
        if not late:
            trace.note("progress", "everybody gets on")
            _check_metadata(machines, ledger, versions)
            return
        await asyncio.sleep(LOOK_S)
    ledger.violated(f"no progress within {PROGRESS_LIMIT_S:.0f} s: {', '.join(late)}")


async def until_committed(machines: Sequence[Machine], ledger: Ledger) -> None:
    """Every partition has a leader, and followers that have told it their ends: readers see all that is there."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PROGRESS_LIMIT_S
    while late := list(_uncommitted(machines)):
        if loop.time() > deadline:
            ledger.violated(f"not committed within {PROGRESS_LIMIT_S:.0f} s: {', '.join(late)}")
            return
        await asyncio.sleep(LOOK_S)


def _uncommitted(machines: Sequence[Machine]) -> Iterator[str]:
    led: dict[TopicPartition, bool] = {}
    for machine in machines:
        for partition in () if machine.node is None else partitions_of(machine.node):
            where = TopicPartition(partition.topic, partition.index)
            log, is_led = partition.log, partition.leader is not None and not partition.log.is_lent
            led[where] = led.get(where, False) or (is_led and partition.high_watermark == log.log_end_offset)
    return (str(where) for where, is_done in led.items() if not is_done)


def _check_metadata(machines: Sequence[Machine], ledger: Ledger, versions: dict[str, int]) -> None:
    """Every node has applied what was acknowledged when all was healed."""
    for machine in machines:
        if machine.node is not None:
            for broken in ledger.promises.broken(image_of(machine.node), versions):
                ledger.violated(f"{machine.name}: {broken}")


def _ends(machines: Sequence[Machine], ledger: Ledger) -> dict[TopicPartition, int]:
    """Where leaders end now, but for those whose log a thread has."""
    ends = {TopicPartition(name, index): 0 for name, count in ledger.topics.items() for index in range(count)}
    for machine in machines:
        if machine.node is not None:
            for partition in partitions_of(machine.node):
                where = TopicPartition(partition.topic, partition.index)
                if where in ends and partition.leader is not None and not partition.log.is_lent:
                    ends[where] = partition.log.log_end_offset
    return ends


def _start(machines: Sequence[Machine], where: TopicPartition) -> int:
    """Where a partition begins now: retention may have deleted what a group has not read."""
    held = (partitions_of(machine.node).get(*where) for machine in machines if machine.node is not None)
    logs = [partition.log for partition in held if partition is not None]
    return max((log.log_start_offset for log in logs if not log.is_lent), default=0)


def _late_nodes(machines: Sequence[Machine], committed: int) -> Iterator[str]:
    active = [machine.name for machine in machines if machine.observer.controls_since is not None]
    if len(active) != 1:
        yield f"active controllers: {active}"
    for machine in machines:
        if machine.node is None:
            yield f"{machine.name} does not serve"
        elif image_of(machine.node).offset < committed:
            yield f"{machine.name} knows the metadata up to {image_of(machine.node).offset} of {committed}"
        else:
            for other in machines:
                broker = image_of(machine.node).brokers.get(other.plan.node_id)
                if other.plan.is_broker and (broker is None or broker.fenced):
                    yield f"{machine.name} sees {other.name} fenced"
    yield from _out_of_sync(machines)
    yield from _handing_over(machines)


def _led_by_others(machines: Sequence[Machine]) -> Iterator[str]:
    for machine in machines:
        image = None if machine.node is None else image_of(machine.node)
        for topic, index in each(image.index.moved) if image is not None else ():
            yield f"{machine.name} sees {topic}-{index} led by another one than should"


def _handing_over(machines: Sequence[Machine]) -> Iterator[str]:
    """Arriving records are held, not appended."""
    for machine in machines:
        groups = (
            {} if machine.node is None or not machine.node.is_broker else machine.node.broker.storage_groups.by_number
        )
        for number, replica in groups.items():
            hand_over = replica.group.hand_over
            if isinstance(hand_over, StorageGroupHandOver) and hand_over.machine.state in HOLDING:
                yield f"{machine.name} gives storage group {number} to node {hand_over.machine.successor}"
        for one in () if machine.node is None else machine.node.hand_overs:
            if one.machine.state in HOLDING:
                yield f"{machine.name} gives {one.partition} to node {one.machine.successor}"


def _out_of_sync(machines: Sequence[Machine]) -> Iterator[str]:
    images = [image_of(machine.node) for machine in machines if machine.node is not None]
    for topic in max(images, key=lambda image: image.offset).topics.values() if images else ():
        for index, partition in topic.partitions.items():
            if partition.adding_replicas or partition.removing_replicas:
                yield f"{topic.name}-{index} is on its way from {partition.removing_replicas}"
            elif sorted(partition.isr) != sorted(partition.replicas):
                yield f"{topic.name}-{index} has {list(partition.isr)} of {list(partition.replicas)} in sync"


def _late_clients(
    producers: Sequence[ProducingClient],
    before: Sequence[int],
    groups: Sequence[str],
    ends: dict[TopicPartition, int],
    ledger: Ledger,
) -> Iterator[str]:
    if not ledger.topics:
        yield "admin"
        return
    for producer, count in zip(producers, before, strict=True):
        if producer.acknowledged <= count:
            yield producer.name
    for group in groups:
        for partition, end in ends.items():
            behind = ledger.committed.get((group, partition), 0) < end
            if end and behind and partition.topic in ledger.topics:
                yield f"{group} in {partition}, which ends at {end}"
