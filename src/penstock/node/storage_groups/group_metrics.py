"""What the storage groups of a node say of themselves in numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from penstock.node.metrics.registry import Counter, Gauge, Group, Labels, Registry

if TYPE_CHECKING:
    from penstock.node.storage_groups.replica import GroupReplica

T = TypeVar("T", int, float)


def register_groups(
    registry: Registry, running: Callable[[], Sequence[GroupReplica]], offline: Callable[[], int]
) -> None:
    """`running` are the replicas that take part here; `offline` counts those that cannot."""

    def each(read: Callable[[GroupReplica], T]) -> Callable[[], dict[Labels, T]]:
        return lambda: {(one.number,): read(one) for one in sorted(running(), key=lambda one: one.number)}

    group, labels = Group.STORAGE_GROUPS, ("group",)
    gauge, counter = partial(Gauge, group, labels=labels), partial(Counter, group, labels=labels)
    registry.add(
        Gauge(group, "GroupCount", "Storage groups that this node takes part in", lambda: len(running())),
        Gauge(group, "LeaderCount", "Those that it leads", lambda: sum(replica.leads for replica in running())),
        Gauge(group, "OfflineCount", "Those that it cannot take part in", offline),
        gauge("leader", "The broker that leads the group, -1 if that is not known", each(_leader)),
        gauge("epoch", "The newest epoch that the group has heard of", each(lambda one: one.quorum.epoch)),
        gauge("log-bytes", "The size of the group's own log", each(lambda one: one.own_log.size_bytes), unit="bytes"),
        counter("proposals", "Batches that it has proposed", each(lambda one: one.group.proposer.proposals)),
        gauge("entries-per-proposal", "How many entries share a proposal", each(_entries_per_proposal)),
        counter("taken-over", "How often another replica gave it the lead", each(lambda one: one.group.taken_over)),
        counter("taken-over-proposals", "Proposals that took", each(lambda one: one.group.taken_over_proposals)),
    )


def _leader(replica: GroupReplica) -> int:
    leader_id = replica.quorum.leader_id
    return -1 if leader_id is None else leader_id


def _entries_per_proposal(replica: GroupReplica) -> float:
    proposer = replica.group.proposer
    return proposer.entries / max(proposer.proposals, 1)
