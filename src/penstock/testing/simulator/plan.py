"""What a seed decides at the beginning: the nodes, their configuration, the clients, and the faults to come."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

FAULTS = (
    "kill", "power", "kill in a call", "power in a call", "stop", "pause", "break", "cut", "one way", "slow",
    "slow sync", "full", "sync errors", "read errors",
)  # fmt: skip
BROKER_PORT = 9092


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node: `roles` as `process.roles` has them."""

    node_id: int
    roles: str = "broker,controller"

    @property
    def name(self) -> str:
        """Its host."""
        return f"node{self.node_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One simulation."""

    nodes: tuple[NodePlan, ...] = (NodePlan(1),)
    settings: dict[str, str]
    flushes_each: bool
    producers: int
    consumers: int
    groups: int
    topics: int
    faults: tuple[str, ...]
    troubles: int = 1
    """So many faults there may be at a time."""
    seconds: float
    delay_s: float
    socket_bytes: int

    def __str__(self) -> str:
        return (
            f"{', '.join(f'{node.name} ({node.roles})' for node in self.nodes)}; "
            f"{self.producers} producers, {self.consumers} consumers in {self.groups} groups, {self.topics} topics, "
            f"{self.seconds:.0f} s, {self.troubles} x faults: {', '.join(self.faults) or 'none'}; {self.settings}"
        )

    def settings_of(self, node: NodePlan) -> dict[str, str]:
        """The configuration of one node."""
        return self.settings | _alone(node)


def _alone(node: NodePlan) -> dict[str, str]:
    return {"node.id": str(node.node_id), "listeners": f"PLAINTEXT://{node.name}:{BROKER_PORT}"}


def draw(random: Random) -> Plan:
    """A plan by chance."""
    flushes_each = random.random() < 0.5
    settings = {
        "metadata.log.max.record.bytes.between.snapshots": str(random.choice((512, 4096, 1 << 20))),
        "offsets.topic.num.partitions": str(random.randrange(1, 4)),
        "group.initial.rebalance.delay.ms": str(random.choice((0, 200, 3000))),
        "log.flush.offset.checkpoint.interval.ms": str(random.choice((1000, 60_000))),
        "replica.high.watermark.checkpoint.interval.ms": str(random.choice((500, 5000))),
        "auto.create.topics.enable": "false",
    }
    if flushes_each:
        settings["log.flush.interval.messages"] = "1"
    return Plan(
        settings=settings,
        flushes_each=flushes_each,
        producers=random.randrange(1, 4),
        consumers=random.randrange(1, 5),
        groups=random.randrange(1, 3),
        topics=random.randrange(1, 6),
        faults=tuple(fault for fault in FAULTS if random.random() < 0.4),
        seconds=random.uniform(10, 40),
        delay_s=random.choice((0.000_2, 0.002, 0.02)),
        socket_bytes=random.choice((2_000, 65_536)),
    )
