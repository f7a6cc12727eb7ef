"""What a run asks and shows: names on the command line, and all measures in one table."""

import argparse
from collections.abc import Collection, Sequence

from rich.table import Table

from bench.measure import Measure


def asked(parser: argparse.ArgumentParser, what: str, known: Collection[str]) -> argparse.Namespace:
    """What the command line says; `names` are those of the known ones that it names, all if it names none."""
    parser.add_argument("names", nargs="*", metavar=what.upper(), help=f"any of: {', '.join(known)} (all)")
    words = parser.parse_args()
    words.is_all = not words.names
    unknown = sorted(set(words.names) - set(known))
    if unknown:
        parser.error(f"no {what} {', '.join(unknown)}: choose from {', '.join(known)}")
    words.names = words.names or list(known)
    return words


def figure(value: float) -> str:
    """Three significant digits, or a whole number."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def table(measures: Sequence[Measure], title: str) -> Table:
    """All measures for people."""
    out = Table(title=title)
    for heading in ("figure", "median", "min", "max", "unit", "budget", ""):
        out.add_column(heading, justify="left" if heading in ("figure", "unit", "") else "right")
    for one in measures:
        budget = f"{one.budget.side} {one.budget.bound:,g}" if one.budget else ""
        spread = (one.median, min(one.values), max(one.values))
        out.add_row(one.name, *map(figure, spread), one.unit, budget, one.verdict)
    return out
