"""P3: consume from the page cache: how fast, and what does a MB cost the broker?"""

from functools import partial

from bench.load import LARGE, LARGE_FETCHES, Load, create_topic, run, start, together
from bench.process import BrokerProcess
from bench.versus.bare import BareLoop
from bench.versus.lines import Figure, Line, lines_of
from bench.versus.systems import MB, Effort, Sample, both, in_turn, scratch

TITLE = "Consume 1000 B records from the page cache"
RATE = Figure("MB/s", "MB/s", "higher")
CPU = Figure("CPU ms/MB", "ms", "lower", limit=1.5)
SIZE, COUNT = 1000, 480_000
CASES = ((1, 1), (12, 1), (1, 4), (12, 4))
"""(partitions, consumers): of one partition each consumer reads all, of twelve its share."""


def measured(broker: BrokerProcess, number: int, *, records: int, partitions: int, consumers: int) -> Sample:
    """Consume the topic once, the records spread evenly over its partitions."""
    shares = [range(partitions)[first::consumers] or range(partitions) for first in range(consumers)]
    before = broker.cpu()
    # The last few records of a partition may be fewer than an even share: ask for a little less than all.
    asked = [int(records * len(share) / partitions * 0.97) for share in shares]
    loads = [
        start(
            "consume",
            broker.address,
            topic_of(partitions),
            records=count,
            size=SIZE,
            partitions=",".join(map(str, share)),
            **LARGE_FETCHES,
        )
        for count, share in zip(asked, shares, strict=True)
    ]
    load: Load = together([one() for one in loads])
    used = broker.cpu_since(before).total
    return {RATE.name: load.mb_per_s, CPU.name: used * 1e3 / (load.size_bytes / MB)}


def topic_of(partitions: int) -> str:
    """The topic that is read."""
    return f"read-{partitions}"


def ask(effort: Effort) -> list[Line]:
    """Ask."""
    records = effort.records(COUNT)
    total = records * SIZE

    def bare(seconds: float, cpu_s: float) -> Sample:
        return {RATE.name: total / MB / seconds, CPU.name: cpu_s * 1e3 / (total / MB)}

    lines = []
    with both() as brokers, scratch() as directory:
        for broker in brokers.values():
            for partitions in (1, 12):
                create_topic(broker.address, topic_of(partitions), partitions)
                settings = {**LARGE, "sticky.partitioning.linger.ms": 0}
                run("produce", broker.address, topic_of(partitions), records=records, size=SIZE, **settings)
        limit = BareLoop(directory, "fetch", total, MB, 1, bare)
        for partitions, consumers in CASES:
            case = f"{partitions} partition{'s' * (partitions > 1)}, {consumers} consumer{'s' * (consumers > 1)}"
            work = partial(measured, records=records, partitions=partitions, consumers=consumers)
            samples = in_turn(effort, f"P3 {case}", brokers, work, limit)
            lines += lines_of(case, (RATE, CPU), samples)
    return lines
