"""P4 and P5: how fast records and requests are answered at a rate that both systems can take."""

from functools import partial

from bench.load import produce
from bench.process import BrokerProcess
from bench.topics import create_topic, delete_topic
from bench.versus.lines import Figure, Line, compared, sample_of
from bench.versus.many import round_trips_ms
from bench.versus.paced import latencies_ms
from bench.versus.systems import Effort, Sample, both

AGES = (Figure("p50", "ms", "lower"), Figure("p99", "ms", "lower"), Figure("p99.9", "ms", "lower", bar=None))
SIZE, COUNT, SECONDS = 100, 500_000, 4.0
SHARES = (10, 50)
END_TO_END = 250_000
"""Records a second that the clients, on the cores that the broker leaves them, can make and take: a rate beyond it
would measure them."""

ANSWERS = (
    Figure("p50", "ms", "lower"),
    Figure("p99", "ms", "lower"),
    Figure("CPU µs/request", "µs", "lower"),
    Figure("requests/s", "requests/s", "higher", bar=None),
)
CLIENTS, RATE = 200, 50


def end_to_end(effort: Effort) -> list[Line]:
    """P4: how long from a producer's call to a consumer's, at 10 % and 50 % of the rate that both systems can take?"""
    with both() as brokers:
        top = _peak(brokers, effort.records(COUNT))
        effort.say(f"P4 peak: {top:,} records/s")
        cases = {f"{share} % of the peak": partial(_aged, rate=top * share // 100) for share in SHARES}
        return compared(effort, "P4", AGES, brokers, cases)


def _peak(brokers: dict[str, BrokerProcess], records: int) -> int:
    """Records a second without any pause, of the slower system: both then get the same load."""
    rates = []
    for broker in brokers.values():
        create_topic(broker.address, "peak")
        loads = [produce(broker.address, "peak", records, SIZE, {"linger.ms": 0}) for _ in range(3)]
        rates.append(max(load.records_per_s for load in loads))
    return int(min(*rates, END_TO_END))


def _aged(broker: BrokerProcess, number: int, *, rate: int) -> Sample:
    """One steady stream through a new topic."""
    topic = f"steady-{rate}-{number}"
    create_topic(broker.address, topic)
    figures = latencies_ms(broker.address, topic, rate=rate, size=SIZE, seconds=SECONDS)
    delete_topic(broker.address, topic)
    return sample_of(AGES, *figures)


def many_connections(effort: Effort) -> list[Line]:
    """P5: 200 connections, each with 50 small produce requests a second: how fast are they answered, at what cost?"""
    with both() as brokers:
        for broker in brokers.values():
            create_topic(broker.address, "crowd", 12)
        return compared(effort, "P5", ANSWERS, brokers, {"": _answered})


def _answered(broker: BrokerProcess, number: int) -> Sample:
    """All clients for a few seconds."""
    before = broker.cpu()
    p50, p99, rate = round_trips_ms(broker.address, "crowd", clients=CLIENTS, rate=RATE, seconds=SECONDS)
    used = (broker.cpu() - before).total
    return sample_of(ANSWERS, p50, p99, used * 1e6 / (rate * SECONDS), rate)
