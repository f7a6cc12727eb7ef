"""Figures of tasks, and the page of them in the text format of Prometheus.

A name that ends with `_total` is a counter, which begins at 0 with each life of a task; all others are gauges.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.protocol.value import Value, fresh

MEDIA_TYPE: Final = "text/plain; version=0.0.4"
PREFIX: Final = "penstock_"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_ESCAPES_OF_HELP: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})


class Metric(Value):
    """A figure, named without the prefix. Labels say what it is about, beside the connector and the task."""

    name: str
    value: float
    labels: Mapping[str, str] = fresh(dict)
    help: str = ""
    """A sentence for people."""


def page(figures: Iterable[Metric]) -> str:
    """Figures of one name stand together."""
    by_name: dict[str, list[Metric]] = {}
    for figure in figures:
        by_name.setdefault(figure.name, []).append(figure)
    lines = []
    for name, same in sorted(by_name.items()):
        if same[0].help:
            lines.append(f"# HELP {PREFIX}{name} {same[0].help.translate(_ESCAPES_OF_HELP)}")
        lines.append(f"# TYPE {PREFIX}{name} {'counter' if name.endswith('_total') else 'gauge'}")
        lines += [f"{PREFIX}{name}{_labels(figure.labels)} {figure.value}" for figure in same]
    return "".join(f"{line}\n" for line in lines)


def _labels(labels: Mapping[str, str]) -> str:
    said = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{said}}}" if said else ""
