"""`python -m tests.delays [QUESTION …]`: what records take that wait by the million, beside what they may.

At full size that is 20 minutes, most of them for the ten million that are to wait. `--scale 0.01` asks the same of a
hundredth of the records; what it says of the bars is then of that many.
"""

import argparse

from bench.measure import Figures, table
from rich.console import Console
from tests.delays.measured import IN_A_BATCH, burst, pending, rate

SECONDS = 20
QUESTIONS = {
    "pending": lambda figures, scale: pending(figures, scaled(10_000_000, scale)),
    "rate": lambda figures, scale: rate(figures, scaled(10_000 * SECONDS, scale) // SECONDS, SECONDS),
    "burst": lambda figures, scale: burst(figures, scaled(1_000_000, scale)),
}


def scaled(count: int, scale: float) -> int:
    """In whole batches, a second's share of them too."""
    return max(round(count * scale / IN_A_BATCH / SECONDS), 1) * IN_A_BATCH * SECONDS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.delays", description=__doc__)
    parser.add_argument("questions", nargs="*", choices=[[], *QUESTIONS], help="which (all)")
    parser.add_argument("--scale", type=float, default=1.0, help="times the number of records (1)")
    words = parser.parse_args()
    figures = Figures()
    for name in words.questions or QUESTIONS:
        QUESTIONS[name](figures, words.scale)
        Console().print(table(figures.measures(), "Records that wait"))


if __name__ == "__main__":
    main()
