"""`python -m bench.versus [P1 …]`: ask, print the tables, write bench/results and docs/performance.md."""

import argparse
import importlib
import signal
import sys
import time
import traceback
from types import ModuleType

from rich.console import Console

from bench.versus import page
from bench.versus.kafka import BROKER, SPARK_CONNECTOR
from bench.versus.maven import MissingToolError, fetch, java
from bench.versus.results import among_others, answered, load_all, save
from bench.versus.systems import Effort
from bench.versus.table import table

QUESTIONS = {
    "P1": "p1_bulk",
    "P2": "p2_small",
    "P3": "p3_consume",
    "P4": "p4_latency",
    "P5": "p5_connections",
    "P6": "p6_boot",
    "P7": "p7_partitions",
    "P8": "p8_group",
    "P9": "p9_spark",
    "P10": "p10_compressed",
    "P11": "p11_replicated",
    "P12": "p12_failover",
    "P13": "p13_standstill",
    "P14": "p14_compaction",
    "P15": "p15_leaders",
    "P16": "p16_moved",
}


def module_of(question: str) -> ModuleType:
    """The module that asks it."""
    return importlib.import_module(f"bench.versus.questions.{QUESTIONS[question]}")


def ask(question: str, effort: Effort) -> bool:
    """Ask one question; a question that fails is said and does not stop the others."""
    module, begun = module_of(question), time.monotonic()
    effort.console.print(f"[bold]{question}[/bold] {module.TITLE}")
    try:
        lines = module.ask(effort)
    except Exception:
        traceback.print_exc()
        return False
    command = f"python -m bench.versus {question} --pairs {effort.pairs} --scale {effort.scale:g}"
    if not lines:
        effort.console.print(f"{question} has no case with {effort.case!r} in its name")
        return False
    found = answered(question, module.TITLE, command, lines)
    effort.console.print(table(found))
    save(among_others(found) if effort.case else found)
    effort.say(f"{question} took {time.monotonic() - begun:.0f} s")
    return True


def main() -> None:
    """Fetch, ask, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.versus", description=__doc__)
    parser.add_argument("questions", nargs="*", metavar="QUESTION", help=f"any of: {', '.join(QUESTIONS)} (all)")
    parser.add_argument("--pairs", type=int, default=5, help="counted pairs of each (5)")
    parser.add_argument("--scale", type=float, default=1.0, help="times the default amount of data (1)")
    parser.add_argument("--case", default="", help="only cases with this in their names; others stay as they are")
    parser.add_argument("--page", action="store_true", help="only write docs/performance.md from what was measured")
    words = parser.parse_args()
    unknown = sorted(set(words.questions) - set(QUESTIONS))
    if unknown:
        parser.error(f"no question {', '.join(unknown)}: choose from {', '.join(QUESTIONS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the brokers are stopped as well
    console = Console(width=None if sys.stdout.isatty() else 160)
    asked = [] if words.page else words.questions or list(QUESTIONS)
    failed: list[str] = []
    if asked:
        try:
            prepare(console, asked)
        except MissingToolError as missing:
            sys.exit(str(missing))
        effort = Effort(words.pairs, words.scale, console, words.case)
        failed = [question for question in asked if not ask(question, effort)]
    console.print(f"written: {page.write(load_all(list(QUESTIONS))).name}")
    if failed:
        sys.exit(f"could not be finished: {', '.join(failed)}")


def prepare(console: Console, asked: list[str]) -> None:
    """Fetch what others published."""
    java()
    with console.status("fetching Apache Kafka through Maven (once)"):
        fetch("kafka", BROKER)
        if "P9" in asked:
            fetch("spark", SPARK_CONNECTOR)


if __name__ == "__main__":
    main()
