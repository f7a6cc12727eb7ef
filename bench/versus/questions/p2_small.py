"""P2: one record per request, with 1, 5 and 50 requests in flight: how many requests, how fast are they answered?"""

from functools import partial

from bench.load import create_topic, delete_topic, run
from bench.process import BrokerProcess
from bench.versus.bare import BareLoop
from bench.versus.lines import Figure, Line, lines_of
from bench.versus.systems import Effort, Sample, both, in_turn, scratch

TITLE = "One record of 100 B per request"
RATE = Figure("requests/s", "requests/s", "higher")
P50 = Figure("p50", "ms", "lower")
P99 = Figure("p99", "ms", "lower", bar=None)
CPU = Figure("CPU µs/request", "µs", "lower")
FIGURES = (RATE, P50, P99, CPU)
CASES = ((1, 10_000), (5, 40_000), (50, 100_000))
SIZE = 100
FRAME = 250
"""The bytes of such a request."""


def measured(broker: BrokerProcess, number: int, *, records: int, in_flight: int) -> Sample:
    """Produce to a new topic of one partition, and delete it."""
    topic = f"small-{in_flight}-{number}"
    create_topic(broker.address, topic)
    before = broker.cpu()
    load = run(
        "produce",
        broker.address,
        topic,
        records=records,
        size=SIZE,
        **{
            "linger.ms": 0,
            "batch.num.messages": 1,
            "max.in.flight.requests.per.connection": in_flight,
            "round.trips": 1,
        },
    )
    used = broker.cpu_since(before).total
    delete_topic(broker.address, topic)
    return {
        RATE.name: load.records_per_s,
        P50.name: load.p50_ms,
        P99.name: load.p99_ms,
        CPU.name: used * 1e6 / load.records,
    }


def ask(effort: Effort) -> list[Line]:
    """Ask."""
    lines = []
    with both() as brokers, scratch() as directory:
        for in_flight, count in CASES:
            records = effort.records(count)
            case = f"{in_flight} in flight"

            def bare(seconds: float, cpu_s: float, records: int = records) -> Sample:
                return {RATE.name: records / seconds, CPU.name: cpu_s * 1e6 / records}

            limit = BareLoop(directory, "produce", records * FRAME, FRAME, in_flight, bare)
            work = partial(measured, records=records, in_flight=in_flight)
            samples = in_turn(effort, f"P2 {case}", brokers, work, limit)
            lines += lines_of(case, FIGURES, samples)
    return lines
