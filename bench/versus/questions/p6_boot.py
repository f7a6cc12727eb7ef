"""P6: how long from the start of the process to the first produced record, and how much memory does the broker hold?"""

import time

from bench.first_record import first_record_at
from bench.load import LARGE, create_topic, run
from bench.versus.lines import Figure, Line, lines_of
from bench.versus.systems import COMMANDS, Effort, Sample, Samples, running, scratch

TITLE = "Boot and memory"
FIGURES = (
    Figure("boot to the first record", "s", "lower", bar=4.0),
    Figure("memory, idle", "MB", "lower", bar=5.0),
    Figure("memory, after 400 MB", "MB", "lower", bar=5.0),
)
COUNT, SIZE = 400_000, 1000


def booted(system: str, records: int) -> Sample:
    """A boot on an empty directory (formatting is not counted), a look at the idle broker, one at the busy one."""
    with scratch() as directory, running(system, directory / system) as broker:
        seconds = first_record_at(broker.port) - broker.started
        time.sleep(2)
        idle = broker.resident_mb
        create_topic(broker.address, "bulk")
        run("produce", broker.address, "bulk", records=records, size=SIZE, **LARGE)
        figures = (seconds, idle, broker.resident_mb)
    return dict(zip((one.name for one in FIGURES), figures, strict=True))


def ask(effort: Effort) -> list[Line]:
    """Ask; each system runs alone."""
    samples: Samples = {name: [] for name in COMMANDS}
    for number in range(effort.pairs + 1):
        for name in COMMANDS:
            sample = booted(name, effort.records(COUNT))
            effort.say(f"P6 {name} {number}/{effort.pairs}: {sample}")
            if number:
                samples[name].append(sample)
    return lines_of("", FIGURES, samples)
