"""Plots as SVG, written by hand: bars, lines and text need no library."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

WIDTH, HEIGHT, LEFT, TOP, LEGEND = 460, 260, 60, 20, 300
COLOURS: Final = ("#2a7f62", "#b5482f", "#7a7a7a", "#c9b458", "#4a6fa5")
Points = Sequence[tuple[float, float]]


def text(x: float, y: float, words: str, anchor: str = "start") -> str:
    style = 'font-family="sans-serif" font-size="12" fill="#333"'
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {style}>{escape(words)}</text>'


def line(x1: float, x2: float, y1: float, y2: float, colour: str = "#ddd") -> str:
    return f'<line x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'


def drawing(width: int, height: int, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def curves(title: str, lines: Mapping[str, Points]) -> str:
    """Lines on two logarithmic axes, each with its name; all numbers are above 0."""
    spots = [spot for points in lines.values() for spot in points]
    low_x, high_x = _powers([x for x, _ in spots])
    low_y, high_y = _powers([y for _, y in spots])

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            LEFT + WIDTH * (math.log10(x) - low_x) / (high_x - low_x),
            TOP + HEIGHT * (high_y - math.log10(y)) / (high_y - low_y),
        )

    parts = [text(LEFT, 14, title)]
    for power in range(low_x, high_x + 1):
        across, _ = at(10.0**power, 10.0**low_y)
        parts += [line(across, across, TOP, TOP + HEIGHT), text(across, TOP + HEIGHT + 16, f"{10**power:,}", "middle")]
    for power in range(low_y, high_y + 1):
        _, down = at(10.0**low_x, 10.0**power)
        parts += [line(LEFT, LEFT + WIDTH, down, down), text(LEFT - 6, down + 4, f"{10.0**power:g}", "end")]
    for index, (name, points) in enumerate(lines.items()):
        colour, down = COLOURS[index % len(COLOURS)], TOP + 14 + 18 * index
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*spot) for spot in sorted(points)))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [box(LEFT + WIDTH + 16, down - 9, 12, 4, colour), text(LEFT + WIDTH + 34, down - 3, name)]
    return drawing(LEFT + WIDTH + LEGEND, TOP + HEIGHT + 30, parts)


def _powers(numbers: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(numbers))), math.ceil(math.log10(max(numbers)))
    return low, max(high, low + 1)
