"""`python -m bench.drills [DRILL …] [--rounds N]`: do them, print the table, write `bench/results/drills.json`."""

import argparse
import json
from dataclasses import asdict
from datetime import UTC, datetime

from rich.console import Console

from bench.__main__ import RESULTS, table
from bench.drills.drills import DRILLS
from bench.measure import Measure, machine


def main() -> None:
    """Drill, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.drills")
    parser.add_argument("drills", nargs="*", metavar="DRILL", help=f"any of: {', '.join(DRILLS)} (all)")
    parser.add_argument("--rounds", type=int, help="rounds of each, instead of its own number")
    words = parser.parse_args()
    unknown = sorted(set(words.drills) - set(DRILLS))
    if unknown:
        parser.error(f"no drill {', '.join(unknown)}: choose from {', '.join(DRILLS)}")
    console, measures = Console(), list[Measure]()
    for name in words.drills or DRILLS:
        drill, rounds = DRILLS[name]
        console.print(f"[bold]{name}[/]: {(drill.__doc__ or '').strip()}")
        measures += drill(words.rounds or rounds, lambda line: console.print(f"  {line}", highlight=False))
    console.print(table(measures, "Penstock: three nodes under kill -9, SIGSTOP and ten thousand topics"))
    document = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "measures": [asdict(one) | {"median": one.median} for one in measures],
    }
    (RESULTS / "drills.json").write_text(json.dumps(document, indent=2) + "\n")
    console.print("written to results/drills.json")


if __name__ == "__main__":
    main()
