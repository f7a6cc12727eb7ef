"""`python -m tests.queues [penstock|nats|rabbitmq …]`: jobs a second with an acknowledgement each, beside others.

Each system is one node on a directory of its own, and syncs what it confirms: RabbitMQ's quorum queues know nothing
else, and with `--unsynced` the others leave it to the kernel, as they do by default.

One worker, with the client library that a program in Python would take, works off a queue of jobs of 100 bytes and
acknowledges each. Then jobs come at a steady rate, and it is asked how long after it was sent each is in the worker's
hands.

NATS (`nats-server` of Go's module proxy) and RabbitMQ (Debian's `rabbitmq-server`) are looked for on the path, and
`--clients` names a Python that has nats-py and pika, which are no part of this project's environment.
"""

import argparse
import json
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
    python, begun = Path(sys.executable) if system == "penstock" else words.clients, time.monotonic()
    with Working(python, system, server.address, words.jobs, words.rate, words.seconds) as working:
        jobs = int(working.says("filled"))
        _tell(f"{system}: {jobs:,} jobs wait after {time.monotonic() - begun:.1f} s")
        before = server.cpu_s()
        taken_s = float(working.goes_on("drained"))
        used = server.cpu_s() - before
        _tell(f"{system}: they are done after {taken_s:.1f} s")
        begun = time.monotonic()
        late_ms = json.loads(working.goes_on("late"))
        _tell(f"{system}: {len(late_ms):,} jobs at a rate are done after {time.monotonic() - begun:.1f} s")
    figures.add(f"{system}: jobs with an acknowledgement each", "jobs/s", jobs / taken_s)
    figures.add(f"{system}: the server's CPU for one", "µs", used * 1e6 / jobs)
    for percent in (50, 99):
        figures.add(f"{system}: at {words.rate} jobs/s, sent to taken, p{percent}", "ms", percentile(late_ms, percent))


def _tell(what: str) -> None:
    print(time.strftime("%H:%M:%S"), what, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.queues", description=__doc__)
    parser.add_argument("systems", nargs="*", choices=[[], *SYSTEMS], help="which (all)")
    parser.add_argument("--clients", type=Path, default=Path(sys.executable), help="a Python with nats-py and pika")
    parser.add_argument("--runs", type=int, default=3, help="counted runs of each, in turns (3)")
    parser.add_argument("--jobs", type=int, default=50_000, help="that wait at first (50000)")
    parser.add_argument("--rate", type=int, default=500, help="jobs a second then (500)")
    parser.add_argument("--seconds", type=int, default=20, help="for so long (20)")
    parser.add_argument("--unsynced", action="store_true", help="what is confirmed may be in the kernel's cache alone")
    words = parser.parse_args()
    figures = Figures()
    try:
        for _ in figures.runs(words.runs):
            for system in words.systems or SYSTEMS:
                ask(figures, system, words)
    except MissingError as missing:
        sys.exit(str(missing))
    Console().print(table(figures.measures(), "Jobs, with an acknowledgement each"))


if __name__ == "__main__":
    main()
