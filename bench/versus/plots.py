"""The plots of the comparison: the ratio of each figure, and the brokers' CPU time."""

import math
import statistics
from collections.abc import Callable, Sequence

from bench.plots import box, drawing, line, text
from bench.versus.results import Answer
from bench.versus.systems import Line

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
