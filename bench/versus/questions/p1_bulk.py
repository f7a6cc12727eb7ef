"""P1: bulk produce, acks=1, in batches of 1 MB: how fast, and what does a MB cost the broker?"""

from functools import partial

from bench.load import LARGE, create_topic, delete_topic, run
from bench.process import BrokerProcess
from bench.versus.bare import BareLoop
from bench.versus.lines import Figure, Line, lines_of
from bench.versus.systems import MB, Effort, Sample, both, in_turn, scratch

TITLE = "Bulk produce: acks=1, batches of 1 MB"
RATE = Figure("MB/s", "MB/s", "higher")
RECORDS = Figure("records/s", "records/s", "higher")
CPU = Figure("CPU ms/MB", "ms", "lower", limit=1.5)
CASES = ((1000, 1, 400_000), (1000, 12, 400_000), (100, 1, 2_000_000), (100, 12, 2_000_000))


def measured(broker: BrokerProcess, number: int, *, records: int, size: int, partitions: int) -> Sample:
    """Produce to a new topic, and delete it."""
    topic = f"bulk-{size}-{partitions}-{number}"
    create_topic(broker.address, topic, partitions)
    before = broker.cpu()
    load = run("produce", broker.address, topic, records=records, size=size, **LARGE)
    used = broker.cpu_since(before).total
    delete_topic(broker.address, topic)
    return {
        RATE.name: load.mb_per_s,
        RECORDS.name: load.records_per_s,
        CPU.name: used * 1e3 / (load.size_bytes / MB),
    }


def ask(effort: Effort) -> list[Line]:
    """Ask."""

    lines = []
    with both() as brokers, scratch() as directory:
        for size, partitions, count in CASES:
            total = effort.records(count) * size

            def bare(seconds: float, cpu_s: float, total: int = total) -> Sample:
                return {RATE.name: total / MB / seconds, CPU.name: cpu_s * 1e3 / (total / MB)}

            case = f"{size} B, {partitions} partition{'s' * (partitions > 1)}"
            limit = BareLoop(directory, "produce", total, MB, 5, bare)
            work = partial(measured, records=effort.records(count), size=size, partitions=partitions)
            samples = in_turn(effort, f"P1 {case}", brokers, work, limit)
            lines += lines_of(case, (RATE, RECORDS, CPU), samples)
    return lines
