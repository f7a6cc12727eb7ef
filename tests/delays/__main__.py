"""`python -m tests.delays [QUESTION …]`: what records take that wait by the million, beside what they may."""

import sys

from bench.measure import Figures, table
from rich.console import Console
from tests.delays.measured import burst, pending, rate

QUESTIONS = {
    "pending": lambda figures: pending(figures, 10_000_000),
    "rate": lambda figures: rate(figures, 10_000, 20),
    "burst": lambda figures: burst(figures, 1_000_000),
}


def main() -> None:
    figures = Figures()
    for name in sys.argv[1:] or QUESTIONS:
        QUESTIONS[name](figures)
        Console().print(table(figures.measures(), "Records that wait"))


if __name__ == "__main__":
    main()
