"""The comparison as a table on the terminal, and as `docs/performance.md`: what is in `bench/results`, and remarks."""

import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.table import Table

from bench.measure import figure
from bench.plots import box, drawing, line, text
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
    for one in answer.lines:
        out.add_row(*cells(one))
    return out


DOCS = Path(__file__).parents[2] / "docs"
REMARKS = Path(__file__).with_name("remarks.md")
INTRODUCTION = Path(__file__).with_name("introduction.md")


def write(answers: Sequence[Answer]) -> Path:
    folder = DOCS / "performance"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ratios.svg").write_text(ratios(answers))
    (folder / "costs.svg").write_text(costs(answers))
    page = DOCS / "performance.md"
    page.write_text(
        "\n".join([INTRODUCTION.read_text(), *_summary(answers), REMARKS.read_text(), *map(section, answers)])
    )
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


ROW, LEFT, WIDTH, RIGHT = 20, 330, 420, 60
AHEAD, BEHIND, KAFKA_COLOUR, BARE_COLOUR = "#2a7f62", "#b5482f", "#7a7a7a", "#c9b458"


def ratios(answers: Sequence[Answer]) -> str:
    """Every line that has a bar: the median ratio as a bar, its worst and best pair as a whisker, on a log scale."""
    lines = [(answer.question, one) for answer in answers for one in answer.lines if one.figure.bar is not None]
    worst = min([0.5, *(one.ratio for _, one in lines)])
    best = max([2.0, *(one.ratio for _, one in lines)])
    low, high = math.floor(math.log2(worst)), math.ceil(math.log2(best))

    def x(ratio: float) -> float:
        return LEFT + WIDTH * (min(max(math.log2(ratio), low), high) - low) / (high - low)

    parts = []
    for power in range(low, high + 1):
        at = x(2.0**power)
        parts += [line(at, at, 24, 30 + ROW * len(lines)), text(at, 18, f"{2.0**power:g} ×", "middle")]
    for index, (question, one) in enumerate(lines):
        parts += _ratio_row(f"{question}  {one.case}  {one.figure.name}", one, 30 + ROW * index, x)
    return drawing(LEFT + WIDTH + RIGHT, 40 + ROW * len(lines), parts)


def _ratio_row(label: str, one: Line, top: int, x: Callable[[float], float]) -> list[str]:
    at, even, middle = x(one.ratio), x(1.0), top + ROW / 2
    return [
        text(LEFT - 8, middle + 4, label, "end"),
        box(min(even, at), top + 4, abs(at - even), ROW - 8, AHEAD if one.ratio >= 1 else BEHIND),
        line(x(min(one.ratios)), x(max(one.ratios)), middle, middle, "#222"),
        text(LEFT + WIDTH + 8, middle + 4, f"{one.ratio:.2f}"),
    ]


def costs(answers: Sequence[Answer]) -> str:
    """The broker's CPU per MB: the bare loop, Penstock, Kafka."""
    lines = [(answer.question, one) for answer in answers for one in answer.lines if one.figure.limit is not None]
    top_value = max((max(map(statistics.median, _columns(one))) for _, one in lines), default=1.0)
    height = ROW * 3 + 10
    parts = []
    for index, (question, one) in enumerate(lines):
        top = 10 + height * index
        parts.append(text(LEFT - 8, top + ROW * 1.5 + 4, f"{question}  {one.case}", "end"))
        rows = zip(_columns(one), (BARE_COLOUR, AHEAD, KAFKA_COLOUR), ("bare", "Penstock", "Kafka"), strict=True)
        for row, (values, colour, name) in enumerate(rows):
            value = statistics.median(values)
            wide, at = WIDTH * value / top_value, top + ROW * row
            parts.append(box(LEFT, at + 2, wide, ROW - 4, colour))
            parts.append(text(LEFT + wide + 6, at + ROW / 2 + 4, f"{name} {value:.2f} ms"))
    return drawing(LEFT + WIDTH + 140, 20 + height * len(lines), parts)


def _columns(one: Line) -> tuple[tuple[float, ...], ...]:
    return one.bare or (0.0,), one.penstock, one.kafka
