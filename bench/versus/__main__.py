"""`python -m bench.versus [P1 …]`: ask, print the tables, write bench/results and docs/performance.md."""

import argparse
import signal
import sys
import traceback
from collections.abc import Callable

from rich.console import Console

from bench.measure import asked
from bench.versus import page
from bench.versus.kafka import MissingToolError, fetch, java
from bench.versus.page import table
from bench.versus.questions.one_node import (
    boot,
    compacted,
    end_to_end,
    full_node,
    hundred_members,
    many_connections,
    small_batches,
    spark,
    standing_still,
)
from bench.versus.questions.promises import assigned, shared, transactions
from bench.versus.questions.secured import over_tls
from bench.versus.questions.three_nodes import killed, moved, replicated, spread_leaders
from bench.versus.questions.throughput import bulk, compressed, consumed, small
from bench.versus.results import among_others, answered, load_all, save
from bench.versus.systems import Effort, Line

QUESTIONS: dict[str, tuple[str, Callable[[Effort], list[Line]]]] = {
    "P1": ("Bulk produce: acks=1, batches of 1 MB", bulk),
    "P2": ("One record of 100 B per request", small),
    "P3": ("Consume 1000 B records from the page cache", consumed),
    "P4": ("End to end latency of 100 B records at a steady rate", end_to_end),
    "P5": ("200 connections with 50 small requests a second each", many_connections),
    "P6": ("Boot and memory", boot),
    "P7": ("10,000 partitions on one node", full_node),
    "P8": ("A group of 100 members", hundred_members),
    "P9": ("Spark reads a topic: records a second, JVM connector against ours", spark),
    "P10": ("Compressed batches, 1000 B of text per record (a MB is a MB before compression)", compressed),
    "P11": ("Three nodes, three replicas, acks=all", replicated),
    "P12": ("kill -9 of one of three nodes under a producer with acks=all", killed),
    "P13": ("A group of ten that stands still", standing_still),
    "P14": (
        "Compaction: one cleaner thread on a copy of the same segments, each key ten times, batches of 16 KB",
        compacted,
    ),
    "P15": ("Six leaders on one of three nodes, and spread over them", spread_leaders),
    "P16": ("One partition's leader moves under a producer with acks=all, 10,000 records/s", moved),
    "P17": ("Transactions: records and positions, committed together, three nodes", transactions),
    "P18": ("A share group that accepts each record", shared),
    "P19": ("A group that its coordinator assigns (KIP-848)", assigned),
    "P20": ("Over TLS 1.3, each broker with the same key", over_tls),
    "P21": ("Small batches on Spark: 100 records of 100 B, JVM connector against ours", small_batches),
}


def answer(question: str, effort: Effort) -> bool:
    """A question that fails is reported and does not stop the others."""
    title, ask = QUESTIONS[question]
    effort.console.print(f"[bold]{question}[/bold] {title}")
    try:
        lines = ask(effort)
    except Exception:
        traceback.print_exc()
        return False
    command = f"python -m bench.versus {question} --pairs {effort.pairs} --scale {effort.scale:g}"
    if not lines:
        effort.console.print(f"{question} has no case with {effort.case!r} in its name")
        return False
    found = answered(question, title, command, lines)
    effort.console.print(table(found))
    save(among_others(found) if effort.case else found)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.versus", description=__doc__)
    parser.add_argument("--pairs", type=int, default=5, help="counted pairs of each (5)")
    parser.add_argument("--scale", type=float, default=1.0, help="times the default amount of data (1)")
    parser.add_argument("--case", default="", help="only cases with this in their names; others stay as they are")
    parser.add_argument("--page", action="store_true", help="only write docs/performance.md from what was measured")
    words = asked(parser, "question", QUESTIONS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the brokers are stopped as well
    console = Console(width=None if sys.stdout.isatty() else 160)
    failed: list[str] = []
    if not words.page:
        try:
            prepare(console, words.names)
        except MissingToolError as missing:
            sys.exit(str(missing))
        effort = Effort(words.pairs, words.scale, console, words.case)
        failed = [question for question in words.names if not answer(question, effort)]
    console.print(f"written: {page.write(load_all(list(QUESTIONS))).name}")
    if failed:
        sys.exit(f"could not be finished: {', '.join(failed)}")


def prepare(console: Console, questions: list[str]) -> None:
    java()
    with console.status("fetching Apache Kafka through Maven (once)"):
        fetch("kafka")
        if {"P9", "P21"} & set(questions):
            fetch("spark")


if __name__ == "__main__":
    main()
