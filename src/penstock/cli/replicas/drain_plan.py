"""Where the replicas of a broker go that leaves: as evenly as can be, and each in a rack of its own."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import click

from penstock.client.values import TopicPartition
from penstock.leadership.plan import in_order

Racks = Mapping[int, str | None]
"""Broker to rack; only brokers in service."""


def replacements(
    replicas: Mapping[TopicPartition, Sequence[int]], leaving: Iterable[int], racks: Racks, closed: Collection[int] = ()
) -> dict[TopicPartition, list[int]]:
    """A replica goes to the broker with the fewest, if possible in a rack that the partition has none in.

    Where the preferred leader leaves, that of its replicas follows which should lead the fewest. `closed` brokers keep
    what they have and get nothing. Raises click.ClickException where there are too few brokers.
    """
    gone = set(leaving)
    staying = {node_id: rack for node_id, rack in racks.items() if node_id not in gone and node_id not in closed}
    held = Counter(node_id for nodes in replicas.values() for node_id in nodes)
    leads = Counter(nodes[0] for nodes in replicas.values())
    plan: dict[TopicPartition, list[int]] = {}
    for partition, nodes in sorted(replicas.items()):
        if gone.isdisjoint(nodes):
            continue
        chosen = list(nodes)
        for place, node_id in enumerate(nodes):
            if node_id not in gone:
                continue
            taken = {racks.get(other) for other in chosen if other not in gone} - {None}
            free = [candidate for candidate in staying if candidate not in chosen]
            if not free:
                raise _too_few(partition, nodes, staying)
            new = min(free, key=lambda one: (staying[one] in taken, held[one], leads[one], one))
            chosen[place] = new
            held[new] += 1
        if nodes[0] in gone:
            leader = min(chosen, key=lambda one: (leads[one], one))
            chosen = in_order(chosen, leader)
            leads[leader] += 1
        plan[partition] = chosen
    return plan


def _too_few(partition: TopicPartition, nodes: Sequence[int], staying: Racks) -> click.ClickException:
    count = len(nodes)
    others = f"{len(staying)} other broker{' is' if len(staying) == 1 else 's are'} in service and not cordoned"
    return click.ClickException(
        f"{partition} has {count} replica{'' if count == 1 else 's'}, and {others}: start another broker, or give the "
        "topic fewer replicas with `penstock reassign-partitions`"
    )
