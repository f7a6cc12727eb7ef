"""`python -m bench.drills [DRILL …] [--rounds N]`: do them, print the table, write `bench/results/drills.json`."""

import argparse
import signal

from rich.console import Console

from bench.drills.drills import DRILLS
from bench.measure import Measure
from bench.report import asked, table
from bench.results_file import RESULTS, write


def main() -> None:
    """Drill, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.drills")
    parser.add_argument("--rounds", type=int, help="rounds of each, instead of its own number")
    words = asked(parser, "drill", DRILLS)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts behind itself ignores it
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console, measures = Console(), list[Measure]()
    for name in words.names:
        drill, rounds = DRILLS[name]
        console.print(f"[bold]{name}[/]: {(drill.__doc__ or '').strip()}")
        measures += drill(words.rounds or rounds, lambda line: console.print(f"  {line}", highlight=False))
    console.print(table(measures, "Penstock: three nodes under kill -9, SIGSTOP and ten thousand topics"))
    write(RESULTS / "drills.json", measures, is_all=words.is_all)
    console.print("written to results/drills.json")


if __name__ == "__main__":
    main()
