"""`python -m bench [QUESTION …] [--runs N]`: ask the questions, print the table, write `bench/results/budgets.json`."""

import argparse

from rich.console import Console

from bench.measure import RESULTS, Measure, asked, table, write
from bench.questions import QUESTIONS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each (5)")
    words = asked(parser, "question", QUESTIONS)
    console, measures = Console(), list[Measure]()
    for name in words.names:
        with console.status(f"{name}: {(QUESTIONS[name].__doc__ or '').strip()}"):
            measures += QUESTIONS[name](words.runs)
    console.print(table(measures, "Penstock: the budgets of one node"))
    write(RESULTS / "budgets.json", measures, is_all=words.is_all)
    console.print(f"written to {RESULTS.name}/budgets.json")


if __name__ == "__main__":
    main()
