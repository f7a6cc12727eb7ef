"""P7: 10,000 partitions on one node: how long does it boot, what memory does it hold, what do small requests cost?"""

from pathlib import Path

from bench.first_record import first_record_at
from bench.load import create_topic
from bench.process import BrokerProcess
from bench.versus.lines import Figure, Line, lines_of
from bench.versus.questions.p2_small import FIGURES as SMALL
from bench.versus.questions.p2_small import measured
from bench.versus.systems import COMMANDS, Effort, Sample, Samples, in_turn, running, scratch

TITLE = "10,000 partitions on one node"
FIGURES = (Figure("boot to the first record", "s", "lower"), Figure("memory, idle", "MB", "lower"))
PARTITIONS, TOPICS = 10_000, 10
COUNT, IN_FLIGHT = 50_000, 50


def fill(system: str, directory: Path) -> None:
    """Create the partitions; each topic's are there when one of the next can be."""
    with running(system, directory) as broker:
        for number in range(TOPICS):
            create_topic(broker.address, f"many-{number}", PARTITIONS // TOPICS)
        first_record_at(broker.port)


def booted(broker: BrokerProcess) -> Sample:
    """What the start of a full node took."""
    seconds = first_record_at(broker.port) - broker.started
    return dict(zip((one.name for one in FIGURES), (seconds, broker.resident_mb), strict=True))


def ask(effort: Effort) -> list[Line]:
    """Ask; each system runs alone but for the small requests."""
    boots: Samples = {name: [] for name in COMMANDS}
    with scratch() as directory:
        for name in COMMANDS:
            effort.say(f"P7 {name}: creating {PARTITIONS:,} partitions")
            fill(name, directory / name)
        for number in range(effort.pairs):
            for name in COMMANDS:
                with running(name, directory / name) as broker:
                    sample = booted(broker)
                    boots[name].append(sample)
                effort.say(f"P7 {name} boot {number + 1}: {sample}")
        first, second = COMMANDS
        with running(first, directory / first) as one, running(second, directory / second) as other:
            for broker in (one, other):
                first_record_at(broker.port)
            requests = in_turn(
                effort,
                "P7 small requests",
                {first: one, second: other},
                lambda broker, number: measured(broker, number, records=effort.records(COUNT), in_flight=IN_FLIGHT),
            )
    return lines_of("boot of a full node", FIGURES, boots) + lines_of("50 in flight", SMALL, requests)
