"""The bounds of what clients pushed are reached, and not passed; nothing that is known is left behind them."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.unit.node.telemetry.otlp_bytes import gauge, metrics_data

from penstock.metadata.image import ClusterImage
from penstock.node.serving.session import Session
from penstock.node.telemetry import receiver
from penstock.node.telemetry.otlp import Point
from penstock.node.telemetry.received import MOST_OF_A_CLIENT, Figure, Received
from penstock.node.telemetry.receiver import MOST_KEPT, TelemetryReceiver
from penstock.node.telemetry.subscriptions import Attributes
from penstock.protocol.uuids import uuid_to_text

NOW_MS = 1_700_000_000_000
ONE, TWO, THREE = (UUID(int=number) for number in (1, 2, 3))
POINTS = [Point("ab", (("l", "v"),), 1.0, False), Point("cde", (), 2.0, False)]


def client(instance: UUID) -> Attributes:
    return Attributes(
        client_instance_id=instance, client_id="id", client_software_name="n", client_software_version="v1"
    )


OWN = (
    ("client_instance_id", uuid_to_text(ONE)),
    ("client_id", "id"),
    ("client_software_name", "n"),
    ("client_software_version", "v1"),
)
OF_CLIENT = sum(len(name) + len(value) for name, value in OWN)
CHARACTERS = (2 + 2 + OF_CLIENT) + (3 + OF_CLIENT)


def test_whose_figures_they_are() -> None:
    received = Received()
    received.take(client(ONE), POINTS, 1000, NOW_MS)
    assert received.figures_of(ONE) == [Figure("ab", (*OWN, ("l", "v")), 1.0), Figure("cde", OWN, 2.0)]
    assert received.figures_of(TWO) == []


@pytest.mark.parametrize(("room", "left"), [(2 * CHARACTERS, 2), (2 * CHARACTERS - 1, 1), (CHARACTERS - 1, 0)])
def test_characters_of_all_figures_with_those_of_their_client(room: int, left: int) -> None:
    received = Received(most_characters=room)
    received.take(client(ONE), POINTS, 1000, NOW_MS)
    received.take(client(TWO), POINTS, 1000, NOW_MS)
    assert (len(received), received.count) == (left, 2 * left)
    received.take(client(TWO), POINTS, 1000, NOW_MS)
    assert (len(received), received.count) == (left, 2 * left), "what is there already takes no more room"


@pytest.mark.parametrize(("most", "left"), [(4, [ONE, TWO]), (3, [TWO])])
def test_figures_of_all(most: int, left: list[UUID]) -> None:
    received = Received(most=most)
    received.take(client(ONE), POINTS, 1000, NOW_MS)
    received.take(client(TWO), POINTS, 1000, NOW_MS)
    assert (received.clients(), received.count) == (left, 2 * len(left))


def test_who_pushed_last_stays_longest() -> None:
    received = Received(most=4)
    for instance in (ONE, TWO, ONE, THREE):
        received.take(client(instance), POINTS, 1000, NOW_MS)
    assert received.clients() == [ONE, THREE]


def test_what_is_known_is_taken_behind_what_is_too_much() -> None:
    received = Received()
    many = [Point(f"a{number}", (), 1.0, False) for number in range(MOST_OF_A_CLIENT)]
    received.take(client(ONE), many, 1000, NOW_MS)
    more = [Point("new", (), 1.0, False), Point("a0", (), 5.0, True), Point("a1", (), 5.0, False)]
    received.take(client(ONE), more, 1000, NOW_MS)
    values = {figure.name: figure.value for figure in received.figures_of(ONE)}
    assert (len(values), values["a0"], values["a1"], received.count) == (500, 6.0, 5.0, 500)


@pytest.mark.parametrize(("interval_ms", "stays_ms"), [(1000, 60_000), (20_000, 60_000), (20_001, 60_003)])
def test_how_long_a_silent_client_stays(interval_ms: int, stays_ms: int) -> None:
    received = Received()
    received.take(client(ONE), POINTS, interval_ms, NOW_MS)
    received.forget_if_silent(TWO, NOW_MS + stays_ms + 1)
    received.forget_if_silent(ONE, NOW_MS + stays_ms)
    assert received.clients() == [ONE]
    received.forget_if_silent(ONE, NOW_MS + stays_ms + 1)
    assert (received.clients(), received.count) == ([], 0)


def test_of_so_many_connections_the_software_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "CONNECTIONS_KEPT", 2)
    taken = TelemetryReceiver(ClusterImage(), 1000)
    sessions = [Session("10.0.0.1", 40_000 + number, "PLAINTEXT", number) for number in range(3)]
    for number, session in enumerate(sessions):
        taken.named_software(session, f"n{number}", f"v{number}")
    found = [taken.attributes(session, "c", ONE) for session in sessions]
    assert [(one.client_software_name, one.client_software_version) for one in found] == [
        ("", ""),
        ("n1", "v1"),
        ("n2", "v2"),
    ]
    assert (taken.pushes, taken.unreadable) == (0, 0)
    assert (found[0].client_source_address, found[0].client_source_port) == ("10.0.0.1", "40000")
    assert (taken.attributes(sessions[0], None, ONE).client_id, MOST_KEPT) == ("", 256)


def test_what_is_pushed_is_unpacked_as_it_is_shown() -> None:
    taken = TelemetryReceiver(ClusterImage(), 100_000)
    data = metrics_data(*(gauge(f"org.apache.kafka.a{number}", 1) for number in range(MOST_OF_A_CLIENT + 1)))
    points = taken.unpacked(0, data)
    assert (len(points), points[0]) == (500, Point("kafka_client_a0", (), 1.0, False))
