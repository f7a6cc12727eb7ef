"""A node's figures as requests of OpenTelemetry's protocol (ExportMetricsServiceRequest in Protobuf), made in steps.

Names and kinds are those of the page for Prometheus. Totals are since the node began (cumulative), so a request that is
lost takes nothing away from the next one.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final

from penstock.node.metrics.distribution import BITS, Distribution
from penstock.node.metrics.registry import Labels, Metric, StateSet
from penstock.node.monitoring.names import family_of, label_name
from penstock.node.monitoring.page import LEAST_BITS, LINES_A_STEP, MOST_BITS, MS_PER_SECOND, QUANTILES
from penstock.node.serving.slices import Pace, Steps

LARGEST: Final = 1_000_000
"""Bytes of a request; it may be longer by one figure's."""
CUMULATIVE: Final = 2
GAUGE, SUM, HISTOGRAM, SUMMARY = 5, 7, 9, 11
"""Fields of a metric, one for each kind."""
_DOUBLE: Final = struct.Struct("<d")
_FIXED: Final = struct.Struct("<Q")
_WHOLE: Final = struct.Struct("<q")


class Origin:
    """What all requests of a node have in common; times are nanoseconds since 1970."""

    def __init__(self, attributes: Iterable[tuple[str, str]], began_ns: int) -> None:
        resource = b"".join(_field(1, _pair(name, value)) for name, value in attributes)
        self.head = _field(1, resource)
        self.scope = _field(1, _text(1, "penstock"))
        self.began = _tagged(2, _FIXED.pack(began_ns))

    def request(self, metrics: Iterable[bytes]) -> bytes:
        scope = self.scope + b"".join(_field(2, metric) for metric in metrics)
        return _field(1, self.head + _field(2, scope))


def request_steps(metrics: Iterable[Metric[Any]], origin: Origin, now_ns: int) -> Steps[list[bytes]]:
    """None of the requests is much larger than `LARGEST`; a metric may be spread over two."""
    times = origin.began + _tagged(3, _FIXED.pack(now_ns))
    requests: list[bytes] = []
    full: list[bytes] = []
    size, pace = 0, Pace(LINES_A_STEP)
    for metric in metrics:
        for name, kind, points in _families(metric, times):
            head, body = _text(1, name) + _text(2, metric.help), bytearray()
            for point in points:
                body += _field(1, point)
                if size + len(body) > LARGEST:
                    full.append(head + _of_kind(kind, bytes(body)))
                    requests.append(origin.request(full))
                    full, size, body = [], 0, bytearray()
                if pace.is_due():
                    yield None
            if body:
                full.append(head + _of_kind(kind, bytes(body)))
                size += len(head) + len(body)
        if pace.is_due(3):
            yield None
    return requests + ([origin.request(full)] if full else [])


Told = tuple[str, int, Iterator[bytes]]


def _families(metric: Metric[Any], times: bytes) -> Iterator[Told]:
    """Name, kind and points; of a distribution that Kafka tells by two figures there are two."""
    family = family_of(metric)
    if family.kind == "avg":
        yield f"{family.name}_avg", GAUGE, (_number(labels, times, it.mean) for labels, it in _samples(metric))
        yield f"{family.name}_max", GAUGE, (_number(labels, times, it.max) for labels, it in _samples(metric))
    elif family.kind == "summary":
        yield family.name, SUMMARY, (_summary(labels, times, it) for labels, it in _samples(metric))
    elif family.kind == "histogram":
        yield family.name, HISTOGRAM, (_histogram(labels, times, it) for labels, it in _samples(metric))
    elif isinstance(metric, StateSet):
        named = ((_attributes(7, [*labels, (label_name(metric.name), it)]), it) for labels, it in _pairs(metric))
        yield family.name, GAUGE, (_number(labels, times, 1) for labels, _ in named)
    else:
        kind = SUM if family.kind == "counter" else GAUGE
        yield family.name, kind, (_number(labels, times, it) for labels, it in _samples(metric))


def _pairs(metric: Metric[Any]) -> Iterator[tuple[list[tuple[str, str]], Any]]:
    names = [label_name(name) for name in metric.labels]
    for values, found in metric.samples():
        yield _named(names, values), found


def _samples(metric: Metric[Any]) -> Iterator[tuple[bytes, Any]]:
    """A histogram's points have their attributes in another field than all others."""
    field = 9 if family_of(metric).kind == "histogram" else 7
    for labels, found in _pairs(metric):
        yield _attributes(field, labels), found


def _named(names: list[str], values: Labels) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in zip(names, values, strict=True)] if values else []


def _number(labels: bytes, times: bytes, value: float) -> bytes:
    """Whole numbers to the last digit."""
    if type(value) is int and -(1 << 63) <= value < 1 << 63:
        return labels + times + _tagged(6, _WHOLE.pack(value))
    return labels + times + _tagged(4, _DOUBLE.pack(value))


def _summary(labels: bytes, times: bytes, of: Distribution) -> bytes:
    quantiles = b"".join(
        _field(6, _tagged(1, _DOUBLE.pack(share)) + _tagged(2, _DOUBLE.pack(of.quantile(share)))) for share in QUANTILES
    )
    return labels + times + _counted(of.count, of.sum) + quantiles


def _histogram(labels: bytes, times: bytes, of: Distribution) -> bytes:
    """The buckets of the page, each by itself."""
    scale = of.per_unit * MS_PER_SECOND
    edges = range(LEAST_BITS, MOST_BITS + 1)
    counts = [sum(of.buckets[: LEAST_BITS + 1])]
    counts += [of.buckets[bits] for bits in edges[1:]]
    counts.append(sum(of.buckets[MOST_BITS + 1 : BITS + 1]))
    buckets = _field(6, b"".join(map(_FIXED.pack, counts)))
    bounds = _field(7, b"".join(_DOUBLE.pack((1 << bits) / scale) for bits in edges))
    return labels + times + _counted(sum(counts), of.total / scale) + buckets + bounds


def _counted(count: int, total: float) -> bytes:
    return _tagged(4, _FIXED.pack(count)) + _tagged(5, _DOUBLE.pack(total))


def _of_kind(kind: int, points: bytes) -> bytes:
    if kind == SUM:
        points += _varint(2 << 3) + _varint(CUMULATIVE) + _varint(3 << 3) + _varint(1)
    elif kind == HISTOGRAM:
        points += _varint(2 << 3) + _varint(CUMULATIVE)
    return _field(kind, points)


def _attributes(field: int, labels: Iterable[tuple[str, str]]) -> bytes:
    return b"".join(_field(field, _pair(name, value)) for name, value in labels)


def _pair(name: str, value: str) -> bytes:
    return _text(1, name) + _field(2, _text(1, value))


def _text(field: int, text: str) -> bytes:
    return _field(field, text.encode("utf-8", "replace"))


def _field(field: int, body: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(body)) + body


def _tagged(field: int, eight_bytes: bytes) -> bytes:
    return bytes([field << 3 | 1]) + eight_bytes


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
