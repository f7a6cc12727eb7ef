"""The comparison as a table on the terminal."""

import statistics
from collections.abc import Sequence

from rich.table import Table

from bench.report import figure
from bench.versus.lines import Line
from bench.versus.results import Answer


def middle(values: Sequence[float]) -> str:
    """A median, or a dash."""
    return figure(statistics.median(values)) if values else "–"


HEADINGS = ("case", "figure", "Kafka", "Penstock", "bare loop", "ratio", "worst – best pair", "bar", "to bare", "")


def cells(line: Line) -> tuple[str, ...]:
    """One row."""
    name = line.figure.name if line.figure.unit in line.figure.name else f"{line.figure.name}, {line.figure.unit}"
    values = (middle(line.kafka), middle(line.penstock), middle(line.bare))
    spread = f"{min(line.ratios):.2f} – {max(line.ratios):.2f}"
    bar = f"≥ {line.figure.bar:g}" if line.figure.bar is not None else "–"
    limit = f"{line.times_bare:.2f} ×" if line.times_bare is not None else "–"
    return (line.case, name, *values, f"{line.ratio:.2f}", spread, bar, limit, line.verdict)


def table(answer: Answer) -> Table:
    """All lines of one question."""
    out = Table(title=f"{answer.question}: {answer.title} (medians; ratio above 1: Penstock is ahead)")
    for index, heading in enumerate(HEADINGS):
        out.add_column(heading, justify="left" if index in (0, 1, 9) else "right", no_wrap=index == 1)
    for line in answer.lines:
        out.add_row(*cells(line))
    return out
