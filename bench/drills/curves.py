"""Figures over growing numbers as one plot: lines on two logarithmic axes, as SVG written by hand."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

WIDTH, HEIGHT, LEFT, TOP, LEGEND = 460, 260, 60, 20, 300
COLOURS: Final = ("#2a7f62", "#b5482f", "#7a7a7a", "#c9b458", "#4a6fa5")
TEXT: Final = 'font-family="sans-serif" font-size="12" fill="#333"'
Points = Sequence[tuple[float, float]]


def curves(title: str, lines: Mapping[str, Points]) -> str:
    """Each line with its name; all numbers are above 0."""
    spots = [spot for points in lines.values() for spot in points]
    low_x, high_x = _powers([x for x, _ in spots])
    low_y, high_y = _powers([y for _, y in spots])

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            LEFT + WIDTH * (math.log10(x) - low_x) / (high_x - low_x),
            TOP + HEIGHT * (high_y - math.log10(y)) / (high_y - low_y),
        )

    parts = [f'<text x="{LEFT}" y="14" {TEXT}>{escape(title)}</text>']
    for power in range(low_x, high_x + 1):
        across, _ = at(10.0**power, 10.0**low_y)
        parts.append(f'<line x1="{across:.1f}" x2="{across:.1f}" y1="{TOP}" y2="{TOP + HEIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{across:.1f}" y="{TOP + HEIGHT + 16}" text-anchor="middle" {TEXT}>{10**power:,}</text>')
    for power in range(low_y, high_y + 1):
        _, down = at(10.0**low_x, 10.0**power)
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{down:.1f}" y2="{down:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{down + 4:.1f}" text-anchor="end" {TEXT}>{10.0**power:g}</text>')
    for index, (name, points) in enumerate(lines.items()):
        colour = COLOURS[index % len(COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*spot) for spot in sorted(points)))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        down = TOP + 14 + 18 * index
        parts.append(f'<rect x="{LEFT + WIDTH + 16}" y="{down - 9}" width="12" height="4" fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + WIDTH + 34}" y="{down - 3}" {TEXT}>{escape(name)}</text>')
    wide, high, body = LEFT + WIDTH + LEGEND, TOP + HEIGHT + 30, "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def _powers(numbers: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around these numbers, at least one apart."""
    low, high = math.floor(math.log10(min(numbers))), math.ceil(math.log10(max(numbers)))
    return low, max(high, low + 1)
