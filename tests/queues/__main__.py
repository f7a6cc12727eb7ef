"""`python -m tests.queues [penstock|nats|rabbitmq …]`: jobs a second with an acknowledgement each, beside others.

Each system is one node on a directory of its own, and syncs what it confirms: RabbitMQ's quorum queues know nothing
else, and with `--unsynced` the others leave it to the kernel, as they do by default.

One worker, with the client library that a program in Python would take, has jobs of 100 bytes and acknowledges each.
First they come at a steady rate, and it is asked how long after it was sent each is in the worker's hands. Then it
works off a queue. What is synced one by one, in order, comes as fast as the disk syncs, 250 a second where that takes
4 ms: so each step ends after `--limit` seconds, and what was done until then counts.

NATS (`nats-server` of Go's module proxy) and RabbitMQ (Debian's `rabbitmq-server`) are looked for on the path, and
`--clients` names a Python that has nats-py and pika, which are no part of this project's environment.
"""

import argparse
import json
import math
import sys
import time
from pathlib import Path

from bench.measure import Figures, percentile, table
from bench.process import scratch
from rich.console import Console
from tests.queues.servers import SYSTEMS, MissingError, Server
from tests.queues.working import Working


def ask(figures: Figures, system: str, words: argparse.Namespace) -> None:
    with scratch() as directory:
        server = SYSTEMS[system](directory, synced=not words.unsynced)
        try:
            _ask(figures, system, server, words)
        finally:
            server.stop()


def _ask(figures: Figures, system: str, server: Server, words: argparse.Namespace) -> None:
    python = Path(sys.executable) if system == "penstock" else words.clients
    asked = server.address, words.jobs, words.rate, words.seconds, words.limit
    with Working(python, system, *asked) as working:
        late_ms = json.loads(working.says("late"))
        in_time = sum(map(math.isfinite, late_ms))
        _tell(f"{system}: {in_time:,} of {len(late_ms):,} jobs at a steady rate are done in time")
        _tell(f"{system}: {int(working.goes_on('filled')):,} jobs wait")
        before = server.cpu_s()
        done, _, taken_s = working.goes_on("drained").partition(" ")
        used, jobs = server.cpu_s() - before, int(done)
        _tell(f"{system}: {jobs:,} of them are done after {float(taken_s):.1f} s")
    figures.add(f"{system}: jobs with an acknowledgement each", "jobs/s", jobs / float(taken_s))
    figures.add(f"{system}: the server's CPU for one", "µs", used * 1e6 / max(jobs, 1))
    for percent in (50, 99):
        figures.add(f"{system}: at {words.rate} jobs/s, sent to taken, p{percent}", "ms", percentile(late_ms, percent))


def _tell(what: str) -> None:
    print(time.strftime("%H:%M:%S"), what, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.queues", description=__doc__)
    parser.add_argument("systems", nargs="*", choices=[[], *SYSTEMS], help="which (all)")
    parser.add_argument("--clients", type=Path, default=Path(sys.executable), help="a Python with nats-py and pika")
    parser.add_argument("--runs", type=int, default=2, help="counted runs of each, in turns (2)")
    parser.add_argument("--jobs", type=int, default=50_000, help="that wait (50000)")
    parser.add_argument("--rate", type=int, default=100, help="jobs a second (100)")
    parser.add_argument("--seconds", type=int, default=10, help="for so long (10)")
    parser.add_argument("--limit", type=int, default=10, help="seconds that a step may take (10)")
    parser.add_argument("--unsynced", action="store_true", help="what is confirmed may be in the kernel's cache alone")
    words = parser.parse_args()
    figures = Figures()
    try:
        for number in figures.runs(words.runs):
            for system in words.systems or SYSTEMS:
                _tell(f"{system}: run {number} of {words.runs}" if number else f"{system}: a run to warm up")
                ask(figures, system, words)
    except MissingError as missing:
        sys.exit(str(missing))
    Console().print(table(figures.measures(), "Jobs, with an acknowledgement each"))


if __name__ == "__main__":
    main()
