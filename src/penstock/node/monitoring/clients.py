"""What clients have pushed, on the page: of no kind that Prometheus knows, as a client says what it likes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from typing import Final

from penstock.node.metrics.registry import Counter, Gauge, Group, Registry, Unknown
from penstock.node.serving.slices import Pace, Steps
from penstock.node.telemetry.received import Figure
from penstock.node.telemetry.receiver import TelemetryReceiver

LOOKED_AT: Final = 500
"""Clients and figures in one step."""


class ClientSurvey:
    """What the last look has found."""

    def __init__(self, receiver: TelemetryReceiver, now_ms: Callable[[], int]) -> None:
        self._receiver = receiver
        self._now_ms = now_ms
        self._figures: list[Figure] = []

    def steps(self) -> Steps[None]:
        received, pace, found = self._receiver.received, Pace(LOOKED_AT), list[Figure]()
        now_ms = self._now_ms()
        for instance in received.clients():
            received.forget_if_silent(instance, now_ms)
            figures = received.figures_of(instance)
            found += figures
            if pace.is_due(1 + len(figures)):
                yield None
        self._figures = yield partial(sorted, found, key=_family)

    def metrics(self) -> Iterator[Unknown]:
        """Those of one name stand behind each other."""
        for (name, labels), figures in groupby(self._figures, _family):
            values = ((tuple(value for _, value in one.labels), one.value) for one in figures)
            yield Unknown(Group.PLAIN, name, "Pushed by clients", partial(_same, values), labels=labels)

    def register(self, registry: Registry) -> None:
        receiver = self._receiver
        registry.add(
            Gauge(Group.CLIENT_METRICS, "instance-count", "Clients that are known", lambda: len(receiver.clients)),
            Counter(Group.NODE, "ClientPushes", "Pushes of clients that were taken", lambda: receiver.pushes),
            Counter(Group.NODE, "ClientPushesUnreadable", "Those that could not be read", lambda: receiver.unreadable),
            Counter(Group.NODE, "ClientPushesThrottled", "Clients came too early", lambda: receiver.clients.throttled),
            Counter(Group.NODE, "ClientPushesUnknown", "Subscriptions not known", lambda: receiver.clients.unknown),
        )


def _family(figure: Figure) -> tuple[str, tuple[str, ...]]:
    return figure.name, tuple(name for name, _ in figure.labels)


def _same(values: Iterator[tuple[tuple[str, ...], float]]) -> Iterator[tuple[tuple[str, ...], float]]:
    return values
