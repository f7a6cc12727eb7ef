"""The page of figures, in the text format of Prometheus or as OpenMetrics, made in steps.

A label's value is quoted so that no name of a topic or a client can end it. Of a distribution there are quantiles of
all since the node began, or cumulative buckets, whose quantiles over any time Prometheus works out itself.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

from penstock.node.metrics.distribution import BITS, Distribution
from penstock.node.metrics.registry import Histogram, Labels, Metric, StateSet
from penstock.node.monitoring.names import Family, family_of, label_name
from penstock.node.serving.slices import Pace, Steps

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
LINES_A_STEP: Final = 200
"""Half a millisecond."""
CHUNKS_AT_ONCE: Final = 100
"""A thread puts more of them together: a megabyte."""
QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""Those of Kafka's MBeans."""
LEAST_BITS: Final = 17
MOST_BITS: Final = 37
"""Of the buckets that are told: nanoseconds from 0.13 ms to 137 s."""
MS_PER_SECOND: Final = 1000
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})

Sample = tuple[str, str, float]
"""What is behind the family's name, the labels as they are written, and the value."""


def page_steps(metrics: Iterable[Metric[Any]], *, is_open: bool) -> Steps[bytes]:
    """The whole page; metrics of one name stand behind each other. `is_open`: as OpenMetrics."""
    chunks: list[bytes] = []
    lines: list[str] = []
    pace, last = Pace(LINES_A_STEP), ""
    for metric in metrics:
        family = family_of(metric)
        for told in _families(family):
            if told.name != last:
                lines += _head(told, metric.help, is_open=is_open)
            last = told.name
            for end, labels, value in _samples(told, metric):
                lines.append(f"{told.name}{end}{labels} {_number(value)}\n")
                if pace.is_due():
                    chunks.append("".join(lines).encode())
                    lines.clear()
                    yield None
        if pace.is_due(3):
            yield None
    if is_open:
        lines.append("# EOF\n")
    chunks.append("".join(lines).encode())
    put_together = partial(b"".join, chunks)
    return put_together() if len(chunks) <= CHUNKS_AT_ONCE else (yield put_together)


def _families(family: Family) -> tuple[Family, ...]:
    """Kafka's younger library tells two figures of a distribution."""
    if family.kind != "avg":
        return (family,)
    return Family(f"{family.name}_avg", "avg"), Family(f"{family.name}_max", "max")


def _head(family: Family, help_text: str, *, is_open: bool) -> list[str]:
    kind = "gauge" if family.kind in ("avg", "max") else family.kind
    kind = "untyped" if kind == "unknown" and not is_open else kind
    name = family.name.removesuffix("_total") if is_open and kind == "counter" else family.name
    return [f"# HELP {name} {help_text.translate(_HELP_ESCAPES)}\n", f"# TYPE {name} {kind}\n"]


def _samples(family: Family, metric: Metric[Any]) -> Iterator[Sample]:
    names = [label_name(name) for name in metric.labels]
    for values, found in metric.samples():
        if isinstance(metric, StateSet):
            state = label_name(metric.name)
            yield "", _labels((*names, state), (*values, found)), 1
        elif isinstance(metric, Histogram):
            yield from _of_distribution(family.kind, names, values, found)
        else:
            yield "", _labels(names, values), found


def _of_distribution(kind: str, names: list[str], values: Labels, found: Distribution) -> Iterator[Sample]:
    labels = _labels(names, values)
    if kind == "avg":
        yield "", labels, found.mean
    elif kind == "max":
        yield "", labels, found.max
    elif kind == "summary":
        for share in QUANTILES:
            yield "", _labels((*names, "quantile"), (*values, str(share))), found.quantile(share)
        yield "_sum", labels, found.sum
        yield "_count", labels, found.count
    else:
        scale, below = found.per_unit * MS_PER_SECOND, 0
        for bits in range(BITS + 1):
            below += found.buckets[bits]
            if LEAST_BITS <= bits <= MOST_BITS:
                yield "_bucket", _labels((*names, "le"), (*values, _number((1 << bits) / scale))), below
        yield "_bucket", _labels((*names, "le"), (*values, "+Inf")), below
        yield "_sum", labels, found.total / scale
        yield "_count", labels, below


def _labels(names: Iterable[str], values: Labels) -> str:
    if not values:
        return ""
    said = [f'{name}="{_quoted(value)}"' for name, value in zip(names, values, strict=True)]
    return f"{{{','.join(said)}}}"


def _quoted(value: str | int) -> str | int:
    """Few names have anything to escape, and looking for it is a fourth of the price."""
    if type(value) is int:
        return value
    text = str(value)
    return text.translate(_ESCAPES) if '"' in text or "\\" in text or "\n" in text else text


def _number(value: float) -> str:
    """Whole numbers to the last digit."""
    return str(value) if type(value) is int else repr(float(value))
