"""`python -m bench.drills [DRILL …] [--rounds N]`: do them, print the table, write `bench/results/drills.json`."""

import argparse
import signal

from rich.console import Console

from bench.drills.drills import DRILLS
from bench.drills.traffic import Drill
from bench.measure import RESULTS, Measure, asked, table, write


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.drills")
    parser.add_argument("--rounds", type=int, help="rounds of each, instead of its own number")
    words = asked(parser, "drill", DRILLS)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console, measures = Console(), list[Measure]()
    for name in words.names:
        work, rounds = DRILLS[name]
        console.print(f"[bold]{name}[/]: {(work.__doc__ or '').strip()}")
        drill = Drill(words.rounds or rounds, lambda line: console.print(f"  {line}", highlight=False))
        work(drill)
        measures += drill.measures()
    console.print(table(measures, "Penstock: three nodes under kill -9, SIGSTOP and ten thousand topics"))
    write(RESULTS / "drills.json", measures, is_all=words.is_all)
    console.print("written to results/drills.json")


if __name__ == "__main__":
    main()
