"""`python -m tests.metrics_beside_kafka FOLDER`: what Strimzi's dashboards ask of Apache Kafka, asked of both.

FOLDER is `packaging/examples/metrics` of a checkout of strimzi-kafka-operator, with its rules and dashboards.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import yaml
from bench.process import BrokerProcess, Process, free_ports, penstock_command, running, scratch
from bench.versus.kafka import fetch, kafka_command, version_of
from prometheus_client.parser import text_string_to_metric_families
from tests.wire.test_metrics import LEFT, RECORDS, STRIMZI, consume, create, produce

TOPIC = "orders"
PARTITIONS = 3
PATIENCE_S = 90
OF_THE_SCRAPE = {"namespace", "strimzi_io_cluster", "strimzi_io_name", "kubernetes_pod_name", "pod_name", "container"}
"""Labels that Prometheus adds to what it scrapes."""
NAME = r"\b((?:kafka|process)_\w+)"
LABEL = r'(\w+)="'
EXPORTER = "strimzi-kafka-exporter"
"""The dashboard for kafka_exporter, which asks Kafka as a client does."""
Asked = Mapping[str, set[str]]
Page = dict[str, list[tuple[dict[str, str], float]]]
"""Labels and values, by name."""


def expressions(node: object) -> Iterator[str]:
    """Of panels and of variables, wherever in a dashboard; a variable takes a label out of what it has found."""
    match node:
        case {"query": str(query), "regex": str(regex)}:
            yield f"label_values({query}, {' '.join(re.findall(LABEL, regex))})"
        case dict():
            for key, value in node.items():
                yield from [value] if key in ("expr", "query") and isinstance(value, str) else expressions(value)
        case list():
            for value in node:
                yield from expressions(value)


def asked_by(dashboard: Path) -> Asked:
    """Names, with the labels that expressions select or sum by; without the JVM's, the containers' and the scrape's."""
    asked: dict[str, set[str]] = {}
    for text in expressions(json.loads(dashboard.read_text())):
        plain = re.sub(r'"[^"]*"', "", re.sub(r"\$\w+", "", text))
        by = set(re.findall(r"\w+", " ".join(re.findall(r"\bby\s*\(([^)]*)\)", plain))))
        by |= set(" ".join(re.findall(r"label_values\(.*,([\w\s]*)\)", plain)).split())
        for name, selected in re.findall(NAME + r"(?:\{([^}]*)\})?", re.sub(r"\bby\s*\([^)]*\)", "", plain)):
            labels = by | set(re.findall(r"(\w+)\s*(?:=|!)", selected))
            asked.setdefault(name, set()).update(labels - OF_THE_SCRAPE)
    return asked


def read(port: int) -> Page:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
        families: Any = text_string_to_metric_families(answer.read().decode())
    page: Page = {}
    for sample in (sample for family in families for sample in family.samples):
        page.setdefault(sample.name, []).append((sample.labels, sample.value))
    return page


def value_of(page: Page, name: str, labels: set[str]) -> float | None:
    """What an expression sums: over those that have all the labels, of this program's topic if it asks for topics."""
    found = [
        value
        for has, value in page.get(name, [])
        if labels <= has.keys() and ("topic" not in labels or has["topic"] == TOPIC)
    ]
    return sum(found) if found else None


def kafka_with_agent(agent: str, directory: Path, port: int, settings: Mapping[str, str]) -> tuple[Sequence[str], None]:
    (program, *arguments), environment = kafka_command(directory, port, settings)
    return [program, agent, *arguments], environment


def work(bootstrap: str) -> None:
    create(bootstrap, TOPIC, PARTITIONS)
    produce(bootstrap, TOPIC, RECORDS)
    consume(bootstrap, TOPIC, PARTITIONS, RECORDS)


def read_when(holds: Callable[[Page], bool], port: int) -> Page:
    """The last page, where it never holds: what is missing there is to be said."""
    page: Page = {}
    until_s = time.monotonic() + PATIENCE_S
    while not holds(page) and time.monotonic() < until_s:
        time.sleep(1)
        try:
            page = read(port)
        except (URLError, ConnectionError):
            continue
    return page


def has_lag(page: Page) -> bool:
    return value_of(page, "kafka_consumergroup_lag", {"topic", "partition"}) == LEFT


def has_written(page: Page) -> bool:
    return value_of(page, "kafka_server_brokertopicmetrics_messagesin_total", {"topic"}) == RECORDS


def page_of_kafka(folder: Path, directory: Path, exporter: str | None) -> Page:
    """Of Kafka by the JMX exporter, and of kafka_exporter if there is one, on one page."""
    maps = yaml.safe_load_all((folder / "kafka-metrics.yaml").read_text())
    (rules,) = (text for one in maps if one["kind"] == "ConfigMap" for text in one["data"].values())
    (directory / "rules.yaml").write_text(rules)
    port, exporters = free_ports(2)
    (jar,) = fetch("jmx-exporter")
    agent = f"-javaagent:{jar}=127.0.0.1:{port}:{directory / 'rules.yaml'}"
    with ExitStack() as stack:
        broker: BrokerProcess = stack.enter_context(running(partial(kafka_with_agent, agent), directory / "kafka"))
        work(broker.address)
        page = read_when(has_written, port)
        if exporter:
            words = [f"--kafka.server={broker.address}", f"--web.listen-address=127.0.0.1:{exporters}"]
            other = Process([exporter, *words], directory / "exporter.out")
            stack.callback(other.stop)
            page = read_when(has_lag, exporters) | page  # both tell of their own process
    return page


def page_of_ours(directory: Path) -> Page:
    (port,) = free_ports(1)
    settings = {"penstock.metrics.listener": f"127.0.0.1:{port}", "penstock.metrics.level": "partitions"}
    with running(penstock_command, directory / "penstock", settings) as node:
        work(node.address)
        return read_when(lambda page: has_lag(page) and has_written(page), port)


def is_as_the_table(board: str, asked: Asked) -> bool:
    differ = [name for name in asked.keys() | STRIMZI[board].keys() if asked.get(name) != STRIMZI[board].get(name)]
    for name in sorted(differ):
        print(f"{board}: {name} is asked for with {asked.get(name)}, the table has {STRIMZI[board].get(name)}")
    return not differ


def have_values(board: str, asked: Asked, theirs: Page, ours: Page) -> bool:
    """False if the node has none. Kafka has no failed requests of a topic before the first one."""
    lacking = 0
    for name, labels in sorted(asked.items()):
        kafkas, our = (value_of(page, name, labels) for page in (theirs, ours))
        lacking += our is None
        print(f"{board}: {name} by {', '.join(sorted(labels)) or 'nothing'}: Kafka {kafkas}, Penstock {our}")
    return not lacking


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.metrics_beside_kafka", description=__doc__)
    parser.add_argument("folder", type=Path, help="packaging/examples/metrics of strimzi-kafka-operator")
    parser.add_argument("--kafka-exporter", help="the program of kafka_exporter; without it its dashboard is left out")
    given = parser.parse_args()
    dashboards = {board: given.folder / "grafana-dashboards" / f"{board}.json" for board in STRIMZI}
    lacking = [str(path) for path in (given.folder / "kafka-metrics.yaml", *dashboards.values()) if not path.exists()]
    if lacking:
        parser.error(f"no {', '.join(lacking)}: clone github.com/strimzi/strimzi-kafka-operator, and name its folder")
    with scratch() as directory:
        theirs = page_of_kafka(given.folder, directory, given.kafka_exporter)
        ours = page_of_ours(directory)
    agent = version_of("jmx-exporter", "jmx_prometheus_javaagent")
    print(f"Kafka {version_of('kafka', 'kafka_2.13')}, JMX exporter {agent}")
    is_well = True
    for board, path in dashboards.items():
        asked = asked_by(path)
        is_well &= is_as_the_table(board, asked)
        if board == EXPORTER and not given.kafka_exporter:
            print(f"{board}: left out, as --kafka-exporter is not given")
        else:
            is_well &= have_values(board, asked, theirs, ours)
    sys.exit(not is_well)


if __name__ == "__main__":
    main()
