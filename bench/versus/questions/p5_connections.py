"""P5: 200 connections, each with 50 small produce requests a second: how fast are they answered, at what cost?"""

from functools import partial

from bench.load import create_topic
from bench.process import BrokerProcess
from bench.versus.lines import Figure, Line, lines_of
from bench.versus.many import round_trips_ms
from bench.versus.systems import Effort, Sample, both, in_turn

TITLE = "200 connections with 50 small requests a second each"
FIGURES = (
    Figure("p50", "ms", "lower"),
    Figure("p99", "ms", "lower"),
    Figure("CPU µs/request", "µs", "lower"),
    Figure("requests/s", "requests/s", "higher", bar=None),
)
CLIENTS, RATE, SECONDS = 200, 50, 4.0


def measured(broker: BrokerProcess, number: int, *, topic: str) -> Sample:
    """All clients for a few seconds."""
    before = broker.cpu()
    p50, p99, rate = round_trips_ms(broker.address, topic, clients=CLIENTS, rate=RATE, seconds=SECONDS)
    used = broker.cpu_since(before).total
    return dict(zip((one.name for one in FIGURES), (p50, p99, used * 1e6 / (rate * SECONDS), rate), strict=True))


def ask(effort: Effort) -> list[Line]:
    """Ask."""
    with both() as brokers:
        for broker in brokers.values():
            create_topic(broker.address, "crowd", 12)
        return lines_of("", FIGURES, in_turn(effort, "P5", brokers, partial(measured, topic="crowd")))
