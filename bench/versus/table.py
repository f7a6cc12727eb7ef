"""The comparison as a table on the terminal."""

import statistics
from collections.abc import Sequence

from rich.table import Table

from bench.versus.lines import Line
from bench.versus.results import Answer


def figure(value: float) -> str:
    """Three significant digits, or a whole number."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def middle(values: Sequence[float]) -> str:
    """A median, or a dash."""
    return figure(statistics.median(values)) if values else "–"


def spread(line: Line) -> str:
    """The ratio of the worst and of the best pair."""
    return f"{min(line.ratios):.2f} – {max(line.ratios):.2f}"


def limit(line: Line) -> str:
    """How far the bare loop is."""
    return f"{line.times_bare:.2f} ×" if line.times_bare is not None else "–"


def bar(line: Line) -> str:
    """What the ratio is held against."""
    return f"≥ {line.figure.bar:g}" if line.figure.bar is not None else "–"


HEADINGS = ("case", "figure", "Kafka", "Penstock", "bare loop", "ratio", "worst – best pair", "bar", "to bare", "")


def cells(line: Line) -> tuple[str, ...]:
    """One row."""
    name = line.figure.name if line.figure.unit in line.figure.name else f"{line.figure.name}, {line.figure.unit}"
    values = (middle(line.kafka), middle(line.penstock), middle(line.bare))
    return (line.case, name, *values, f"{line.ratio:.2f}", spread(line), bar(line), limit(line), line.verdict)


def table(answer: Answer) -> Table:
    """All lines of one question."""
    out = Table(title=f"{answer.question}: {answer.title} (medians; ratio above 1: Penstock is ahead)")
    for index, heading in enumerate(HEADINGS):
        out.add_column(heading, justify="left" if index in (0, 1, 9) else "right", no_wrap=index == 1)
    for line in answer.lines:
        out.add_row(*cells(line))
    return out
