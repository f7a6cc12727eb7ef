"""P8 and P13: how long groups take to form, and stand still when members come and go."""

from functools import partial

from bench.child import Child
from bench.node import AT_ONCE
from bench.process import BrokerProcess
from bench.standstill import EVENTS, KINDS, standstills
from bench.topics import create_topic
from bench.versus.lines import Figure, Line, compared, sample_of
from bench.versus.members import group_times_s
from bench.versus.systems import Effort, Sample, both

FORMED = (
    Figure("first join to stable", "s", "lower"),
    Figure("one leaves, to stable", "s", "lower"),
    Figure("CPU s", "s", "lower"),
)
MEMBERS = 100
STILL = tuple(
    Figure(f"{event}: {what}", "s", "lower") for event in EVENTS for what in ("no record at all", "worst partition")
)


def hundred_members(effort: Effort) -> list[Line]:
    """P8: how long does a group of 100 members take to form, and to find itself again when one leaves?

    The only setting is that both let a group form at once.
    """
    with both(AT_ONCE) as brokers:
        for broker in brokers.values():
            create_topic(broker.address, "shared", MEMBERS)
        return compared(effort, "P8", FORMED, brokers, {"": _formed})


def _formed(broker: BrokerProcess, number: int) -> Sample:
    """A new group on the same topic."""
    before = broker.cpu()
    joined, left = Child(group_times_s, broker.address, "shared", f"group-{number}", MEMBERS).result()
    return sample_of(FORMED, joined, left, (broker.cpu() - before).total)


def standing_still(effort: Effort) -> list[Line]:
    """P13: how long does a group of ten stand still when a member joins, restarts or leaves, by the kind of member?"""
    with both(AT_ONCE) as brokers:
        return compared(effort, "P13", STILL, brokers, {kind: partial(_stood_still, kind) for kind in KINDS})


def _stood_still(kind: str, broker: BrokerProcess, number: int) -> Sample:
    """A new group on a topic of its own."""
    found = standstills(broker.address, f"{kind}-{number}", kind)
    return sample_of(STILL, *(seconds for event in EVENTS for seconds in found[event]))
