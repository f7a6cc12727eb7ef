"""What a metric is called on the page for Prometheus: as Strimzi's rules make it of Kafka's MBeans.

| of a name in Kafka      | becomes                                          |
| ----------------------- | ------------------------------------------------ |
| `kafka.server`, a type  | `kafka_server_`, the type in small letters       |
| `…PerSec`               | `…_total`, a counter                             |
| `…Percent`              | `…_percent`                                      |
| `a-dash`                | `a_dash`; in the types of three groups, `adash`  |
| a distribution          | a summary, with the label `quantile`; or `…_avg` |

What Kafka has no name for begins with `penstock_`, has words in small letters, and `_total` if it only grows.
"""

import re
from typing import Any, Final

from penstock.node.metrics.registry import Counter, Group, Histogram, Metric, Unknown
from penstock.protocol.value import Value

OURS: Final = "penstock"
_DASHLESS: Final = frozenset({"raft-metrics", "raft-channel-metrics", "broker-metadata-metrics"})
_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_COUNT: Final = re.compile("_count$")
"""Prometheus takes it for a part of a distribution."""
_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9_]")


class Family(Value):
    """The name of samples, without what a distribution adds; `kind` is one of OpenMetrics."""

    name: str
    kind: str


def family_of(metric: Metric[Any]) -> Family:
    domain, type_name = metric.group.domain, metric.group.type_name
    if domain == OURS:
        whole_node = metric.group is Group.NODE
        name = "_".join((OURS, *([] if whole_node else [_words(type_name)]), _words(metric.name)))
        if isinstance(metric, Histogram):
            return Family(name, "histogram")
        if isinstance(metric, Counter):
            return Family(name.removesuffix("_count") + "_total", "counter")
        return Family(_COUNT.sub("_number", name), "gauge")
    if isinstance(metric, Unknown):
        return Family(metric.name, "unknown")
    if domain == "":
        return Family(metric.name, "counter" if metric.name.endswith("_total") else "gauge")
    prefix = f"{domain.replace('.', '_')}_{_type(type_name)}_"
    if isinstance(metric, Histogram):
        return Family(prefix + _plain(metric.name), "avg" if "-" in type_name else "summary")
    if metric.name.endswith("PerSec"):
        return Family(prefix + _plain(metric.name.removesuffix("PerSec")) + "_total", "counter")
    if metric.name.endswith("Percent"):
        return Family(prefix + _plain(metric.name.removesuffix("Percent")) + "_percent", "gauge")
    name = prefix + _plain(metric.name)
    return Family(name, "counter" if isinstance(metric, Counter) and name.endswith("_total") else "gauge")


def label_name(name: str) -> str:
    return _NO_NAME.sub("_", name)


def _type(type_name: str) -> str:
    return type_name.replace("-", "") if type_name in _DASHLESS else _plain(type_name)


def _plain(name: str) -> str:
    return _NO_NAME.sub("_", name).lower()


def _words(name: str) -> str:
    return _plain(_WORD.sub("_", name))
