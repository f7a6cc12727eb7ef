"""All nodes are killed at once, fifty times: nothing that was acknowledged is lost."""

import pytest
from tests.simulation.soaked import soaked_after

from penstock.testing.simulator import Outcome, simulate
from penstock.testing.simulator.plan import NodePlan, Plan, quorum_settings

ROUNDS = 10
SEEDS = soaked_after(1, range(5))


def plan() -> Plan:
    return Plan(
        nodes=(NodePlan(1), NodePlan(2), NodePlan(3)),
        settings={
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            "log.flush.interval.messages": "1",
            "metadata.log.max.record.bytes.between.snapshots": "4096",
        }
        | quorum_settings(),
        flushes_each=True,
        producers=2,
        consumers=1,
        groups=1,
        topics=20,
        faults=("kill all", "power all"),
        seconds=100,
        delay_s=0.002,
        socket_bytes=65_536,
    )


def rounds(outcome: Outcome) -> int:
    killed = [line.split(maxsplit=1) for line in outcome.trace if line.endswith(("is killed", "loses its power"))]
    moments = [time for time, _ in killed]
    return sum(1 for time in set(moments) if moments.count(time) == len(outcome.plan.nodes))


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_acknowledged_is_lost(seed: int) -> None:
    outcome = simulate(seed, plan=plan())
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])
    assert outcome.acknowledged > 0
    assert rounds(outcome) >= ROUNDS
