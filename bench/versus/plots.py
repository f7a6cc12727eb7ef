"""Plots as SVG, written by hand: bars and text need no library."""

import math
import statistics
from collections.abc import Callable, Sequence
from html import escape

from bench.versus.lines import Line
from bench.versus.results import Answer

ROW, LEFT, WIDTH, RIGHT = 20, 330, 420, 60
AHEAD, BEHIND, KAFKA_COLOUR, BARE_COLOUR = "#2a7f62", "#b5482f", "#7a7a7a", "#c9b458"
TEXT = 'font-family="sans-serif" font-size="12" fill="#333"'


def ratios(answers: Sequence[Answer]) -> str:
    """Every line that has a bar: the median ratio as a bar, its worst and best pair as a whisker, on a log scale."""
    lines = [(answer.question, line) for answer in answers for line in answer.lines if line.figure.bar is not None]
    worst = min([0.5, *(line.ratio for _, line in lines)])
    best = max([2.0, *(line.ratio for _, line in lines)])
    low, high = math.floor(math.log2(worst)), math.ceil(math.log2(best))

    def x(ratio: float) -> float:
        return LEFT + WIDTH * (min(max(math.log2(ratio), low), high) - low) / (high - low)

    parts = []
    for power in range(low, high + 1):
        at, label = x(2.0**power), f"{2.0**power:g} ×"
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="24" y2="{30 + ROW * len(lines)}" stroke="#ddd"/>')
        parts.append(f'<text x="{at:.1f}" y="18" text-anchor="middle" {TEXT}>{label}</text>')
    for index, (question, line) in enumerate(lines):
        parts += _ratio_row(f"{question}  {line.case}  {line.figure.name}", line, 30 + ROW * index, x(1.0), x)
    return _svg(LEFT + WIDTH + RIGHT, 40 + ROW * len(lines), parts)


def _ratio_row(label: str, line: Line, top: int, one: float, x: Callable[[float], float]) -> list[str]:
    at = x(line.ratio)
    colour = AHEAD if line.ratio >= 1 else BEHIND
    middle = top + ROW / 2
    return [
        f'<text x="{LEFT - 8}" y="{middle + 4}" text-anchor="end" {TEXT}>{escape(label)}</text>',
        f'<rect x="{min(one, at):.1f}" y="{top + 4}" width="{abs(at - one):.1f}" height="{ROW - 8}" fill="{colour}"/>',
        f'<line x1="{x(min(line.ratios)):.1f}" x2="{x(max(line.ratios)):.1f}" y1="{middle}" y2="{middle}" '
        'stroke="#222" stroke-width="1.5"/>',
        f'<text x="{LEFT + WIDTH + 8}" y="{middle + 4}" {TEXT}>{line.ratio:.2f}</text>',
    ]


def costs(answers: Sequence[Answer]) -> str:
    """The broker's CPU per MB: the bare loop, Penstock, Kafka."""
    lines = [(answer.question, line) for answer in answers for line in answer.lines if line.figure.limit is not None]
    top_value = max((max(map(statistics.median, _columns(line))) for _, line in lines), default=1.0)
    height = ROW * 3 + 10
    parts = []
    for index, (question, line) in enumerate(lines):
        top = 10 + height * index
        label = escape(f"{question}  {line.case}")
        parts.append(f'<text x="{LEFT - 8}" y="{top + ROW * 1.5 + 4}" text-anchor="end" {TEXT}>{label}</text>')
        rows = zip(_columns(line), (BARE_COLOUR, AHEAD, KAFKA_COLOUR), ("bare", "Penstock", "Kafka"), strict=True)
        for row, (values, colour, name) in enumerate(rows):
            value = statistics.median(values)
            wide, at = WIDTH * value / top_value, top + ROW * row
            parts.append(f'<rect x="{LEFT}" y="{at + 2}" width="{wide:.1f}" height="{ROW - 4}" fill="{colour}"/>')
            words = f"{name} {value:.2f} ms"
            parts.append(f'<text x="{LEFT + wide + 6:.1f}" y="{at + ROW / 2 + 4}" {TEXT}>{words}</text>')
    return _svg(LEFT + WIDTH + 140, 20 + height * len(lines), parts)


def _columns(line: Line) -> tuple[tuple[float, ...], ...]:
    return line.bare or (0.0,), line.penstock, line.kafka


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )
