"""Many clients, each with a connection of its own and a few small requests a second; in processes of their own."""

import argparse
import statistics
import time

from confluent_kafka import Producer

from bench.child import Child, answer
from bench.load import RoundTrips

PROCESSES = 2
TICK_S = 0.0005


def round_trips_ms(address: str, topic: str, *, clients: int, rate: int, seconds: float) -> tuple[float, float, float]:
    """(p50, p99, requests a second): percentiles of each client, their mean over all clients."""
    share = clients // PROCESSES
    children = [Child("bench.versus.many", address, topic, share, rate, seconds) for _ in range(PROCESSES)]
    results = [child.result() for child in children]
    p50, p99 = (statistics.fmean(one[index] for one in results) for index in (0, 1))
    return p50, p99, sum(one[2] for one in results)


def main() -> None:
    """Run a share of the clients; their requests are spread evenly over time."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("topic")
    parser.add_argument("clients", type=int)
    parser.add_argument("rate", type=int)
    parser.add_argument("seconds", type=float)
    words = parser.parse_args()
    trips = [RoundTrips() for _ in range(words.clients)]
    settings = {
        "bootstrap.servers": words.address,
        "linger.ms": 0,
        "acks": 1,
        "statistics.interval.ms": int(words.seconds * 500),
    }
    producers = [Producer({**settings, "stats_cb": one}) for one in trips]
    for producer in producers:
        producer.list_topics(words.topic, 30)
    value = b"x" * 100
    begun, sent = time.perf_counter(), 0
    while (now := time.perf_counter()) < begun + words.seconds:
        due = int((now - begun) * words.rate * words.clients)
        for number in range(sent, due):
            producer = producers[number % words.clients]
            producer.produce(words.topic, value)
            producer.poll(0)
        sent = due
        time.sleep(TICK_S)
    ended = time.perf_counter()
    for producer in producers:
        producer.flush(10)
        producer.poll(0)
    figures = [one.percentiles_ms() for one in trips]
    seen = [one for one in figures if one[0]]
    answer((statistics.fmean(one[0] for one in seen), statistics.fmean(one[1] for one in seen), sent / (ended - begun)))


if __name__ == "__main__":
    main()
