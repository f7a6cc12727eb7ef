"""P13: how long does a group of ten stand still when a member joins, restarts or leaves?"""

from functools import partial

from bench.process import BrokerProcess
from bench.standstill import EVENTS, KINDS, standstills
from bench.versus.lines import Figure, Line, lines_of
from bench.versus.systems import Effort, Sample, both, in_turn

TITLE = "A group of ten that stands still"
FIGURES = tuple(
    Figure(f"{event}: {what}", "s", "lower") for event in EVENTS for what in ("no record at all", "worst partition")
)


def measured(kind: str, broker: BrokerProcess, number: int) -> Sample:
    """A new group on a topic of its own."""
    found = standstills(broker.address, f"{kind}-{number}", kind)
    figures = [seconds for event in EVENTS for seconds in found[event]]
    return dict(zip((one.name for one in FIGURES), figures, strict=True))


def ask(effort: Effort) -> list[Line]:
    """Ask for each kind of member; the only setting is that both let a group form at once."""
    lines: list[Line] = []
    with both({"group.initial.rebalance.delay.ms": "0"}) as brokers:
        for kind in KINDS:
            samples = in_turn(effort, f"P13 {kind}", brokers, partial(measured, kind))
            lines += lines_of(kind, FIGURES, samples)
    return lines
