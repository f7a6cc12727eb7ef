"""P4: how long from a producer's call to a consumer's, at 10 % and 50 % of the rate that both systems can take?"""

from functools import partial

from bench.load import create_topic, delete_topic, run
from bench.process import BrokerProcess
from bench.versus.lines import Figure, Line, lines_of
from bench.versus.paced import latencies_ms
from bench.versus.systems import Effort, Sample, both, in_turn

TITLE = "End to end latency of 100 B records at a steady rate"
FIGURES = (Figure("p50", "ms", "lower"), Figure("p99", "ms", "lower"), Figure("p99.9", "ms", "lower", bar=None))
SIZE, COUNT, SECONDS = 100, 500_000, 4.0
SHARES = (10, 50)
END_TO_END = 250_000
"""Records a second that the clients, on the cores that the broker leaves them, can make and take: a rate beyond it
would measure them."""


def peak(brokers: dict[str, BrokerProcess], records: int) -> int:
    """Records a second without any pause, of the slower system: both then get the same load."""
    rates = []
    for broker in brokers.values():
        create_topic(broker.address, "peak")
        loads = [
            run("produce", broker.address, "peak", records=records, size=SIZE, **{"linger.ms": 0}) for _ in range(3)
        ]
        rates.append(max(load.records_per_s for load in loads))
    return int(min(*rates, END_TO_END))


def measured(broker: BrokerProcess, number: int, *, rate: int) -> Sample:
    """One steady stream through a new topic."""
    topic = f"steady-{rate}-{number}"
    create_topic(broker.address, topic)
    figures = latencies_ms(broker.address, topic, rate=rate, size=SIZE, seconds=SECONDS)
    delete_topic(broker.address, topic)
    return dict(zip((figure.name for figure in FIGURES), figures, strict=True))


def ask(effort: Effort) -> list[Line]:
    """Ask."""
    lines = []
    with both() as brokers:
        top = peak(brokers, effort.records(COUNT))
        effort.say(f"P4 peak: {top:,} records/s")
        for share in SHARES:
            rate = top * share // 100
            case = f"{share} % of the peak"
            lines += lines_of(case, FIGURES, in_turn(effort, f"P4 {case}", brokers, partial(measured, rate=rate)))
    return lines
