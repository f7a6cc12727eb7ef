"""P20: what TLS costs: bulk, small requests and idle connections over it, with the same key for both systems."""

import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from bench.measure import percentile
from bench.process import BrokerProcess, free_ports, running, scratch
from bench.topics import create_topic, delete_topic
from bench.versus.kafka import server_settings
from bench.versus.questions.throughput import COMPRESSED, SMALL, passed, small_requests
from bench.versus.systems import COMMANDS, Effort, Figure, Line, Sample, compared, sample_of
from bench.wire import Wire, produce_frame
from penstock.tls.authority import new_authority, signed_by

HOST = "127.0.0.1"
RECORDS, REQUESTS = 300_000, 50_000
P99 = Figure("p99", "ms", "lower")
AT_ONCE = [P99 if one.name == "p99" else one for one in SMALL]
ONE_BY_ONE = (SMALL[1], P99, SMALL[3], Figure("CPU µs over plain", "µs", "lower", bar=None, own=8.0))
IDLE = Figure("KiB per connection", "KiB", "lower", bar=None, own=32.0)
CONNECTIONS, LEAST = 100, 0.1
"""A difference of two costs may come out as nothing."""


def over_tls(effort: Effort) -> list[Line]:
    """P20: bulk, small requests and idle connections over TLS: how fast, and what do they cost the broker?"""
    records, requests = effort.records(RECORDS), effort.records(REQUESTS)
    with _both() as brokers, ExitStack() as held:
        one = {"1 in flight": partial(_one_by_one, records=requests // 5)}
        more = {f"{count} in flight": partial(small_requests, records=requests, in_flight=count) for count in (5, 50)}
        return [
            *compared(effort, "P20", COMPRESSED, brokers, {"bulk": partial(passed, records=records, given={})}),
            *compared(effort, "P20", ONE_BY_ONE, brokers, one),
            *compared(effort, "P20", AT_ONCE, brokers, more),
            *compared(effort, "P20", [IDLE], brokers, {"idle": partial(_idle, held=held)}),
        ]


@contextmanager
def _both() -> Iterator[dict[str, BrokerProcess]]:
    """Each with a listener in the clear, and one with TLS, of which `clients` knows."""
    with scratch() as directory, ExitStack() as stack:
        now = datetime.now(UTC)
        authority = new_authority("bench", now, 2)
        signed = signed_by(authority, "node", [HOST], now, 1)
        key, trusted = directory / "key.pem", directory / "trusted.pem"
        key.write_text(signed.key + signed.certificate)
        trusted.write_text(authority.certificate)
        brokers = {}
        for name, command in COMMANDS.items():
            port, secured, controller = free_ports(3)
            settings = server_settings(1, directory / name / "data", port, controller, {1: controller})
            settings["listeners"] += f",SSL://{HOST}:{secured}"
            settings |= {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT"}
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(key)}
            broker = brokers[name] = stack.enter_context(running(command, directory / name, settings, port))
            broker.clients = _clients(f"{HOST}:{secured}", trusted)
        yield brokers


def _clients(address: str, trusted: Path) -> dict[str, str | int]:
    return {"bootstrap.servers": address, "security.protocol": "ssl", "ssl.ca.location": str(trusted)}


def _one_by_one(broker: BrokerProcess, number: int, *, records: int) -> Sample:
    """As most clients send them, each in one record of TLS: librdkafka makes several of a request."""
    topic, over = f"one-{number}", broker.clients
    create_topic(broker.address, topic)
    frame, costs = produce_frame(topic, b"x" * 100), []
    for address, tls in ((broker.address, None), (str(over["bootstrap.servers"]), _trusting(broker))):
        with Wire(address, tls=tls) as wire:
            begun = broker.cpu()
            trips = [wire.round_trip_ms(frame) for _ in range(records)]
            costs.append((broker.cpu() - begun).total * 1e6 / records)
    delete_topic(broker.address, topic)
    over_plain = max(costs[1] - costs[0], LEAST)
    return sample_of(ONE_BY_ONE, percentile(trips, 50), percentile(trips, 99), costs[1], over_plain)


def _idle(broker: BrokerProcess, number: int, *, held: ExitStack) -> Sample:
    """More of them each time: what was given back does not count as new."""
    tls, before = _trusting(broker), broker.resident_mb
    for _ in range(CONNECTIONS):
        held.enter_context(Wire(str(broker.clients["bootstrap.servers"]), tls=tls))
    return sample_of([IDLE], max((broker.resident_mb - before) * 1e6 / 1024 / CONNECTIONS, LEAST))


def _trusting(broker: BrokerProcess) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(broker.clients["ssl.ca.location"]))
