"""The comparison as a table on the terminal, and as `docs/performance.md`: what is in `bench/results`, and remarks."""

import statistics
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from bench.measure import figure
from bench.versus import plots
from bench.versus.results import Answer
from bench.versus.systems import Line


def middle(values: Sequence[float]) -> str:
    """A dash without values."""
    return figure(statistics.median(values)) if values else "–"


HEADINGS = ("case", "figure", "Kafka", "Penstock", "bare loop", "ratio", "worst – best pair", "bar", "to bare", "")


def cells(line: Line) -> tuple[str, ...]:
    name = line.figure.name if line.figure.unit in line.figure.name else f"{line.figure.name}, {line.figure.unit}"
    values = (middle(line.kafka), middle(line.penstock), middle(line.bare))
    spread = f"{min(line.ratios):.2f} – {max(line.ratios):.2f}"
    bar = f"≥ {line.figure.bar:g}" if line.figure.bar is not None else "–"
    limit = f"{line.times_bare:.2f} ×" if line.times_bare is not None else "–"
    return (line.case, name, *values, f"{line.ratio:.2f}", spread, bar, limit, line.verdict)


def table(answer: Answer) -> Table:
    out = Table(title=f"{answer.question}: {answer.title} (medians; ratio above 1: Penstock is ahead)")
    for index, heading in enumerate(HEADINGS):
        out.add_column(heading, justify="left" if index in (0, 1, 9) else "right", no_wrap=index == 1)
    for line in answer.lines:
        out.add_row(*cells(line))
    return out


DOCS = Path(__file__).parents[2] / "docs"
REMARKS = Path(__file__).with_name("remarks.md")
INTRODUCTION = """\
<!-- Made by `python -m bench.versus`; the remarks are in bench/versus/remarks.md. -->
# Penstock and Apache Kafka, side by side

Measured by `make versus`; the processor, the command and the time stand with each question, and what was measured on
one kind of processor is not written over by another. Both brokers are single
nodes (in P11, P12, P15 and P16 three nodes each, all on this machine) with the
settings that a default installation has (Kafka's: KRaft in combined mode, directories, ports and
replication factors of one apart, a heap of 1 GB and the options of the JVM as its scripts set them). The clients are
the same for both: librdkafka, in processes of their own. The systems take turns: Kafka, Penstock, Kafka, Penstock …;
the first pair warms up and is not counted.

* **ratio**: of each pair, how many times as good Penstock is, the median of all pairs. Above 1 Penstock is ahead,
  whether a high or a low figure is the better one. *worst – best pair* is the spread.
* **bare loop**: the system calls that a broker cannot do without (receive, checksum, write; read, send) in a loop
  without any protocol. *to bare* is how many times that limit Penstock stands from it.
* **met**, **even** (the median misses the bar by at most a tenth), **short**. Where a bar is not a ratio,
  *met* or *missed* stands with what Penstock's own figure is held against.
"""


def write(answers: Sequence[Answer]) -> Path:
    folder = DOCS / "performance"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ratios.svg").write_text(plots.ratios(answers))
    (folder / "costs.svg").write_text(plots.costs(answers))
    page = DOCS / "performance.md"
    page.write_text("\n".join([INTRODUCTION, *_summary(answers), REMARKS.read_text(), *map(section, answers)]))
    return page


def _summary(answers: Sequence[Answer]) -> list[str]:
    machines = {_machine(answer) for answer in answers}
    counted = [line.verdict.split(",")[0] for answer in answers for line in answer.lines if line.figure.bar is not None]
    words = ", ".join(f"{counted.count(word)} {word}" for word in ("met", "even", "short"))
    return [
        f"Of {len(counted)} figures with a bar: {words}.\n",
        "## Where\n",
        *(f"* {one}" for one in sorted(machines)),
        "\n## At a glance\n",
        "![The ratio of each figure, with its spread](performance/ratios.svg)\n",
        "The broker's CPU time per MB:\n",
        "![Milliseconds of CPU per MB: the bare loop, Penstock, Kafka](performance/costs.svg)\n",
    ]


def _machine(answer: Answer) -> str:
    seen = answer.machine
    return (
        f"{seen['processor']}, {seen['cores']} cores, {seen['memory_gib']} GiB, {seen['system']}; "
        f"Penstock {seen['penstock']} on Python {seen['python']}; Apache Kafka {seen['kafka']} on Java {seen['java']}; "
        f"librdkafka through confluent-kafka {seen['confluent-kafka']}; PySpark {seen['pyspark']} with "
        f"spark-sql-kafka-0-10 {seen['spark-sql-kafka']}"
    )


def section(answer: Answer) -> str:
    rows = [HEADINGS, tuple("---" for _ in HEADINGS), *map(cells, answer.lines)]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    pairs = min(len(line.kafka) for line in answer.lines)
    most = max(len(line.kafka) for line in answer.lines)
    counted = f"{pairs} pairs" if pairs == most else f"{pairs} to {most} pairs"
    times = sorted({line.when for line in answer.lines})
    when = times[0] if len(times) == 1 else f"in parts from {times[0]} to {times[-1]}"
    where = f"{answer.machine['processor']}, `{answer.command}`, {counted}, {when}"
    return f"## {answer.question}: {answer.title}\n\n{where}\n\n{table}\n"
