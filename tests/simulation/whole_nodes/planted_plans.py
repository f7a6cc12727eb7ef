"""Small plans in which planted bugs are looked for, and what simulations of them find."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.testing.simulator import simulate
from penstock.testing.simulator.plan import NodePlan, Plan, quorum_settings, replica_settings

FOUND: Final = r"seed \d+: (?!AttributeError|NameError|TypeError)\w+"
"""How a simulation tells of a bug; what its own world lacks is none."""

THREE: Final = (NodePlan(1), NodePlan(2), NodePlan(3))
QUICK_QUORUM: Final = quorum_settings(election_ms=200, patience_ms=500)
QUICK_REPLICAS: Final = {
    "offsets.topic.num.partitions": "1",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "100",
    "replica.fetch.backoff.ms": "100",
}


def plan_of(*faults: str, flushes_each: bool = True, settings: Mapping[str, str] | None = None, **changes: Any) -> Plan:
    """One node and a client of each kind, unless the changes say otherwise."""
    quick = {"auto.create.topics.enable": "false", "group.initial.rebalance.delay.ms": "0"}
    if flushes_each:
        quick["log.flush.interval.messages"] = "1"
    plan = Plan(
        settings=quick | dict(settings or {}),
        flushes_each=flushes_each,
        producers=1,
        consumers=1,
        groups=1,
        topics=1,
        faults=faults,
        seconds=12,
        delay_s=0.002,
        socket_bytes=65_536,
    )
    return plan.replace(**changes)


def replicated_plan(
    *faults: str, min_in_sync: int = 1, settings: Mapping[str, str] | None = None, **changes: Any
) -> Plan:
    """Three nodes, with all partitions on each of them."""
    replicated = QUICK_REPLICAS | QUICK_QUORUM | replica_settings(3, min_in_sync) | dict(settings or {})
    return plan_of(*faults, nodes=THREE, replicas=3, settings=replicated, **changes)


def seeds(count: int, *, first: int = 0) -> tuple[int, ...]:
    """`first`, which found something last, before the other ones of so many seeds."""
    return (first, *(seed for seed in range(count) if seed != first))


def is_found_with(seeds: Iterable[int], plan: Plan, *words: str) -> bool:
    """Whether one of these seeds finds something that is said in one of these words; anything, where none are given."""
    return any(
        word in line for seed in seeds for line in simulate(seed, plan=plan).violations for word in words or [""]
    )


def first_found(seeds: Iterable[int], plan: Plan) -> str:
    """What the first of these seeds finds that finds anything; nothing, if none does."""
    return next((found[0] for seed in seeds if (found := simulate(seed, plan=plan).violations)), "")
