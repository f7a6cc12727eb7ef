"""P8: how long does a group of 100 members take to form, and to find itself again when one leaves?"""

from bench.load import create_topic
from bench.process import BrokerProcess
from bench.versus.lines import Figure, Line, lines_of
from bench.versus.members import group_times_s
from bench.versus.systems import Effort, Sample, both, in_turn

TITLE = "A group of 100 members"
FIGURES = (
    Figure("first join to stable", "s", "lower"),
    Figure("one leaves, to stable", "s", "lower"),
    Figure("CPU s", "s", "lower"),
)
MEMBERS = 100


def measured(broker: BrokerProcess, number: int) -> Sample:
    """A new group on the same topic."""
    before = broker.cpu()
    joined, left = group_times_s(broker.address, "shared", f"group-{number}", MEMBERS)
    used = broker.cpu_since(before).total
    return dict(zip((one.name for one in FIGURES), (joined, left, used), strict=True))


def ask(effort: Effort) -> list[Line]:
    """Ask; the only setting is that both let a group form at once."""
    with both({"group.initial.rebalance.delay.ms": "0"}) as brokers:
        for broker in brokers.values():
            create_topic(broker.address, "shared", MEMBERS)
        return lines_of("", FIGURES, in_turn(effort, "P8", brokers, measured))
