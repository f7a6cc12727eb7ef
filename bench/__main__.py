"""`python -m bench [QUESTION …] [--runs N]`: ask the questions, print the table, write `bench/results/budgets.json`."""

import argparse

from rich.console import Console
from rich.table import Table

from bench.measure import Measure
from bench.questions import QUESTIONS
from bench.results_file import RESULTS, write


def table(measures: list[Measure], title: str) -> Table:
    """All measures for people."""
    out = Table(title=title)
    for heading in ("figure", "median", "min", "max", "unit", "budget", ""):
        out.add_column(heading, justify="left" if heading in ("figure", "unit", "") else "right")
    for one in measures:
        budget = f"{one.budget.side} {one.budget.bound:,g}" if one.budget else ""
        low, high = min(one.values), max(one.values)
        out.add_row(one.name, figure(one.median), figure(low), figure(high), one.unit, budget, one.verdict)
    return out


def figure(value: float) -> str:
    """Three significant digits, or a whole number."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def main() -> None:
    """Ask, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("questions", nargs="*", metavar="QUESTION", help=f"any of: {', '.join(QUESTIONS)} (all)")
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each (5)")
    words = parser.parse_args()
    unknown = sorted(set(words.questions) - set(QUESTIONS))
    if unknown:
        parser.error(f"no question {', '.join(unknown)}: choose from {', '.join(QUESTIONS)}")
    console, measures = Console(), list[Measure]()
    for name in words.questions or QUESTIONS:
        with console.status(f"{name}: {(QUESTIONS[name].__doc__ or '').strip()}"):
            measures += QUESTIONS[name](words.runs)
    console.print(table(measures, "Penstock: the budgets of one node"))
    write(RESULTS / "budgets.json", measures, is_all=not words.questions)
    console.print(f"written to {RESULTS.name}/budgets.json")


if __name__ == "__main__":
    main()
