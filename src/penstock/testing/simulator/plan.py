"""What a seed decides at the beginning: the node's configuration, the clients, and which faults there will be."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

FAULTS = (
    "kill", "power", "kill in a call", "power in a call", "stop", "break", "cut", "one way", "slow", "slow sync", "full"
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One simulation."""

    settings: dict[str, str]
    flushes_each: bool
    producers: int
    consumers: int
    groups: int
    topics: int
    faults: tuple[str, ...]
    seconds: float
    delay_s: float
    socket_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.producers} producers, {self.consumers} consumers in {self.groups} groups, {self.topics} topics, "
            f"{self.seconds:.0f} s, faults: {', '.join(self.faults) or 'none'}; {self.settings}"
        )


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
