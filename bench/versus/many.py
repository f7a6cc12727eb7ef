"""Many clients, each with a connection of its own and a few small requests a second; in processes of their own."""

import statistics
import time

from confluent_kafka import Producer

from bench.child import Child
from bench.load import RoundTrips

PROCESSES = 2
TICK_S = 0.0005


def round_trips_ms(address: str, topic: str, *, clients: int, rate: int, seconds: float) -> tuple[float, float, float]:
    """(p50, p99, requests a second): percentiles of each client, their mean over all clients."""
    share = clients // PROCESSES
    children = [Child(_share, address, topic, share, rate, seconds) for _ in range(PROCESSES)]
    p50, p99, rates = zip(*(child.result() for child in children), strict=True)
    return statistics.fmean(p50), statistics.fmean(p99), sum(rates)


def _share(address: str, topic: str, clients: int, rate: int, seconds: float) -> tuple[float, float, float]:
    """Run a share of the clients; their requests are spread evenly over time."""
    trips = [RoundTrips() for _ in range(clients)]
    settings = {"bootstrap.servers": address, "linger.ms": 0, "acks": 1, "statistics.interval.ms": int(seconds * 500)}
    producers = [Producer({**settings, "stats_cb": one}) for one in trips]
    for producer in producers:
        producer.list_topics(topic, 30)
    value = b"x" * 100
    begun, sent = time.perf_counter(), 0
    while (now := time.perf_counter()) < begun + seconds:
        due = int((now - begun) * rate * clients)
        for number in range(sent, due):
            producer = producers[number % clients]
            producer.produce(topic, value)
            producer.poll(0)
        sent = due
        time.sleep(TICK_S)
    ended = time.perf_counter()
    for producer in producers:
        producer.flush(10)
        producer.poll(0)
    p50, p99 = zip(*(figures for one in trips if (figures := one.percentiles_ms())[0]), strict=True)
    return statistics.fmean(p50), statistics.fmean(p99), sent / (ended - begun)
