"""The newest of what clients have pushed, for the page of figures: bounded in clients, in figures and in their names.

A client's figures go when it was silent for `PUSHES_MISSED` of its intervals, or when others need the room and it was
silent for the longest time.
"""

import math
import re
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from penstock.node.telemetry.otlp import LONGEST_TEXT, Point
from penstock.node.telemetry.subscriptions import Attributes
from penstock.protocol.uuids import uuid_to_text

MOST_FIGURES: Final = 20_000
MOST_CHARACTERS: Final = 8_000_000
"""Of all figures with their names and labels, as a page tells them; one of Kafka's clients has two or three hundred."""
MOST_OF_A_CLIENT: Final = 500
PUSHES_MISSED: Final = 3
SHORTEST_MS: Final = 60_000
PREFIX: Final = "kafka_client_"
_OF_KAFKA: Final = "org.apache.kafka."
_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9_]")

Labels = tuple[tuple[str, str], ...]


class Figure(NamedTuple):
    name: str
    labels: Labels
    value: float


@dataclass(slots=True)
class _Client:
    labels: Labels
    until_ms: int = 0
    characters: int = 0
    figures: dict[tuple[str, Labels], float] = field(default_factory=dict)


class Received:
    """By client, the newest first to stay."""

    def __init__(self, most: int = MOST_FIGURES, most_characters: int = MOST_CHARACTERS) -> None:
        self._most = most
        self._most_characters = most_characters
        self._clients: OrderedDict[UUID, _Client] = OrderedDict()
        self.count = 0
        """Figures that are kept."""
        self._characters = 0

    def take(self, attributes: Attributes, points: Iterable[Point], interval_ms: int, now_ms: int) -> None:
        """`points` are as `as_shown` makes them. A client without a figure is none: their number is bounded by that."""
        instance = attributes.client_instance_id
        client = self._clients.get(instance) or _Client(_labels(attributes))
        of_client = _characters(client.labels)
        for point in points:
            key = point.name, point.labels
            is_new = key not in client.figures
            if is_new and len(client.figures) >= MOST_OF_A_CLIENT:
                continue
            if is_new:
                self._enter(client, len(key[0]) + _characters(key[1]) + of_client)
            client.figures[key] = point.value + (client.figures.get(key, 0.0) if point.is_delta else 0.0)
        if client.figures:
            client.until_ms = now_ms + max(PUSHES_MISSED * interval_ms, SHORTEST_MS)
            self._clients[instance] = client
            self._clients.move_to_end(instance)
        while self.count > self._most or self._characters > self._most_characters:
            self._leave(self._clients.popitem(last=False)[1])

    def _enter(self, client: _Client, characters: int) -> None:
        self.count += 1
        self._characters += characters
        client.characters += characters

    def _leave(self, client: _Client) -> None:
        self.count -= len(client.figures)
        self._characters -= client.characters

    def forget_if_silent(self, client_instance_id: UUID, now_ms: int) -> None:
        client = self._clients.get(client_instance_id)
        if client is not None and client.until_ms < now_ms:
            self._leave(self._clients.pop(client_instance_id))

    def __len__(self) -> int:
        return len(self._clients)

    def clients(self) -> list[UUID]:
        return list(self._clients)

    def figures_of(self, client_instance_id: UUID) -> list[Figure]:
        """Nothing of a client that has gone meanwhile."""
        client = self._clients.get(client_instance_id)
        if client is None:
            return []
        return [Figure(name, client.labels + labels, value) for (name, labels), value in client.figures.items()]


def as_shown(points: Iterable[Point]) -> list[Point]:
    """With names and labels that a page may have, without what is no number. For a thread, as there may be very many
    labels.
    """
    return [
        point._replace(name=name_of(point.name), labels=_apart(point.labels))
        for point in points
        if math.isfinite(point.value)
    ]


def _characters(labels: Labels) -> int:
    return sum(len(label) + len(value) for label, value in labels)


def name_of(metric: str) -> str:
    """`org.apache.kafka.producer.connection.creation.rate` is `kafka_client_producer_connection_creation_rate`."""
    return PREFIX + _NO_NAME.sub("_", metric.removeprefix(_OF_KAFKA))


def _labels(client: Attributes) -> Labels:
    return (
        ("client_instance_id", uuid_to_text(client.client_instance_id)),
        ("client_id", client.client_id[:LONGEST_TEXT]),
        ("client_software_name", client.client_software_name),
        ("client_software_version", client.client_software_version),
    )


def _apart(labels: Labels) -> Labels:
    """Names that a page may have, none twice, and none of the client's own."""
    named = {f"metric_{_NO_NAME.sub('_', name)}": value for name, value in labels}
    return tuple(named.items())
