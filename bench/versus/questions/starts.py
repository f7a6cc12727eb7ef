"""P6 and P7: boot and memory, of an empty node and of one with 10,000 partitions."""

import time

from bench.first_record import first_record_at
from bench.load import LARGE, produce
from bench.node import running, scratch
from bench.topics import create_topic, fill
from bench.versus.lines import Figure, Line, compared, lines_of, sample_of
from bench.versus.questions.throughput import SMALL, small_requests
from bench.versus.systems import COMMANDS, Effort, Sample, Samples

EMPTY = (
    Figure("boot to the first record", "s", "lower", bar=4.0),
    Figure("memory, idle", "MB", "lower", bar=5.0),
    Figure("memory, after 400 MB", "MB", "lower", bar=5.0),
)
COUNT, SIZE = 400_000, 1000
FULL = (Figure("boot to the first record", "s", "lower"), Figure("memory, idle", "MB", "lower"))
PARTITIONS, IN_FLIGHT, REQUESTS = 10_000, 50, 50_000


def boot(effort: Effort) -> list[Line]:
    """P6: how long from the start of the process to the first produced record, and how much memory does it hold?

    Each system runs alone.
    """
    samples: Samples = {name: [] for name in COMMANDS}
    for number in range(effort.pairs + 1):
        for name in COMMANDS:
            sample = _booted(name, effort.records(COUNT))
            effort.show("P6", name, number, sample)
            if number:
                samples[name].append(sample)
    return lines_of("", EMPTY, samples)


def _booted(system: str, records: int) -> Sample:
    """A boot on an empty directory (formatting is not counted), a look at the idle broker, one at the busy one."""
    with scratch() as directory, running(COMMANDS[system], directory / system) as broker:
        seconds = first_record_at(broker.address) - broker.started
        time.sleep(2)
        idle = broker.resident_mb
        create_topic(broker.address, "bulk")
        produce(broker.address, "bulk", records, SIZE, LARGE)
        return sample_of(EMPTY, seconds, idle, broker.resident_mb)


def full_node(effort: Effort) -> list[Line]:
    """P7: 10,000 partitions on one node: how long does it boot, what memory does it hold, what do small requests cost?

    Each system runs alone but for the small requests.
    """
    boots: Samples = {name: [] for name in COMMANDS}
    with scratch() as directory:
        for name, command in COMMANDS.items():
            effort.say(f"P7 {name}: creating {PARTITIONS:,} partitions")
            with running(command, directory / name) as broker:
                fill(broker.address, PARTITIONS)
                first_record_at(broker.address)  # the partitions are there when one more can be
        for number in range(effort.pairs):
            for name, command in COMMANDS.items():
                with running(command, directory / name) as broker:
                    seconds = first_record_at(broker.address) - broker.started
                    boots[name].append(sample_of(FULL, seconds, broker.resident_mb))
                effort.show("P7 boot", name, number + 1, boots[name][-1])
        first, second = COMMANDS
        with (
            running(COMMANDS[first], directory / first) as one,
            running(COMMANDS[second], directory / second) as other,
        ):
            for broker in (one, other):
                first_record_at(broker.address)
            records = effort.records(REQUESTS)
            requests = compared(
                effort,
                "P7",
                SMALL,
                {first: one, second: other},
                {
                    "50 in flight": lambda broker, number: small_requests(
                        broker, number, records=records, in_flight=IN_FLIGHT
                    )
                },
            )
    return lines_of("boot of a full node", FULL, boots) + requests
