"""Plants bugs, one at a time, and tells which ones the tests do not notice: `make mutants`.

    python -m tools.mutants raft log --count 100 --seed 7 --minutes 30
    python -m tools.mutants --since v1.0 --page docs/mutants.md          # only in lines that changed since then
    python -m tools.mutants raft --tests unit/raft                       # quicker: only these tests are asked

Every mutant is one change of one expression or statement. It lives in memory only, and is asked of the tests that run
its line: of unit tests first, then of simulations, then of nodes in this process that clients talk to (`asking.py`). A
bug that uses up its time counts as noticed, but is listed, because a test should have failed before. The same seed over
the same code plants the same bugs.
"""

import argparse
import os
import signal
import sys
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tools.asking import ASKED_CPU_S, NEVER_RUN, NOT_ALL, SAME, SURVIVORS, Asked, Asker
from tools.changed import changed_lines, page
from tools.children import NOTICED, SURVIVES
from tools.planter import ROOT, SOURCE, Mutant, mutants_of

ROOMS = (("unit",), ("golden", "property", "docs/test_derived_pages.py"), ("simulation",), ("wire",))
"""Folders and files of tests in which a bug is looked for, one room after the other. In processes of clusters it would
not be.
"""

MARKED = ROOT / "tools" / "no_difference.toml"
"""Bugs that nobody can notice, marked by hand with the reason; they are not asked about."""

KEEPS_DATA = ("coordinator", "controller", "leadership", "log", "raft", "replicated", "replication", "sharing", "tls")
KEEPS_DATA_IN_NODE = ("controlling", "coordinators", "links", "partitions", "quorum", "sharing", "storage_groups")
OFTEN = 3
"""So many times as likely is a bug drawn from what keeps, moves or fences data as from what does not."""


def draw(possible: Mapping[str, Sequence[Mutant]], count: int, random: Random) -> dict[str, list[Mutant]]:
    """Some of all that are possible in these packages, with more of those that concern data."""
    ranked = [
        (random.random() ** (1 / _weight(place)), place, mutant) for place, of in possible.items() for mutant in of
    ]
    ranked.sort(key=lambda it: -it[0])
    drawn: dict[str, list[Mutant]] = {place: [] for place in possible}
    for _, place, mutant in ranked[:count]:
        drawn[place].append(mutant)
    return drawn


def _weight(place: str) -> int:
    room, _, name = place.partition("/")
    return OFTEN if room in KEEPS_DATA or (room == "node" and name in KEEPS_DATA_IN_NODE) else 1


def marks() -> dict[tuple[Path, str, str], str]:
    """The reasons, by file, line as it is and what is planted."""
    rows = tomllib.loads(MARKED.read_text())["bug"]
    return {(SOURCE / row["file"], row["line"], row["bug"]): row["reason"] for row in rows}


def mark_of(bug: Mutant) -> tuple[Path, str, str]:
    return bug.path, bug.path.read_text().splitlines()[bug.line - 1].strip(), bug.what


@dataclass
class Run:
    """What became of the bugs so far, by their numbers."""

    bugs: Sequence[Mutant]
    ends: float
    verdicts: dict[int, str] = field(default_factory=dict)

    def judge(self, asker: Asker, rooms: Sequence[Sequence[Path]]) -> None:
        """Ask about what no room before has noticed, as long as there is time."""
        for folders in rooms:
            left = [number for number in range(len(self.bugs)) if self.verdicts.get(number, SURVIVES) in SURVIVORS]
            tests = [
                test for test in asker.tests if any(it in (test.item.path, *test.item.path.parents) for it in folders)
            ]
            if left and tests and time.monotonic() < self.ends:
                self._ask(asker, left, tests)

    def _ask(self, asker: Asker, numbers: Iterable[int], tests: Sequence[Asked]) -> None:
        begun = time.monotonic()
        asker.watch(tests)
        took_s = sum(test.took_s for test in tests)
        print(f"{len(tests)} tests took {took_s:.0f} s of CPU in {time.monotonic() - begun:.0f} s", flush=True)
        for test in tests:
            if test.is_broken:
                print(f"fails without any bug or takes too long, and is not asked: {test.item.nodeid}", flush=True)
        for number in numbers:
            if time.monotonic() > self.ends:
                print("no time for more", flush=True)
                return
            verdict = asker.ask(number, tests)
            before = self.verdicts.get(number, NEVER_RUN)
            if verdict != NEVER_RUN and not (verdict == SURVIVES and before == NOT_ALL):
                self.verdicts[number] = verdict
            self.verdicts.setdefault(number, verdict)
            print(f"{verdict}: {self.bugs[number]}", flush=True)


def main() -> None:
    """The command line."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    os.chdir(ROOT)
    changed = changed_lines(options.since) if options.since else None
    places = options.places or _packages(changed or SOURCE.rglob("*.py"))
    possible = {
        place: [one for one in mutants_of(place) if changed is None or one.line in changed.get(one.path, ())]
        for place in places
    }
    drawn = draw(possible, options.count, Random(options.seed))
    bugs = [bug for of in drawn.values() for bug in of]
    rooms = options.tests or ROOMS
    folders = [[ROOT / "tests" / name for name in room] for room in rooms]
    marked = marks()
    same = {number: SAME for number, bug in enumerate(bugs) if mark_of(bug) in marked}
    run = Run(bugs, time.monotonic() + options.minutes * 60, same)
    files = sorted({one.path for of in possible.values() for one in of}) if options.kept else ()
    Asker(bugs, lambda asker: run.judge(asker, folders), options.longest, options.cpu, options.kept, files).collect(
        [str(folder) for room in folders for folder in room]
    )
    of_bug = {bug: run.verdicts[number] for number, bug in enumerate(bugs) if number in run.verdicts}
    figures: dict[str, tuple[int, int, dict[str, int]]] = {}
    for place in places:
        verdicts = [of_bug[bug] for bug in drawn[place] if bug in of_bug]
        tally = {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))}
        lines = sum(len(of) for path, of in (changed or {}).items() if (SOURCE / place) in (path, *path.parents))
        figures[place] = (lines, len(possible[place]), tally)
        print(f"{place}: {tally}")
    left = [f"{verdict}: {bug}" for bug, verdict in of_bug.items() if verdict not in (NOTICED, SAME)]
    print("", *left, sep="\n")
    if options.page:
        options.page.write_text(page(options.since, figures, left))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Plant bugs and see which ones the tests do not notice.")
    parser.add_argument("places", nargs="*", metavar="PLACE", help="a package or a file, as in log/recovery.py")
    parser.add_argument(
        "--count", type=int, default=200, help="bugs in all; most where data are kept (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="which ones (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=60, help="ask for at most so long (default: %(default)s)")
    parser.add_argument(
        "--tests",
        nargs="+",
        action="append",
        metavar="PATH",
        help="ask only these, as in unit/raft; given again: ask those about what these have not noticed",
    )
    parser.add_argument(
        "--longest", type=float, default=30, help="ask no test that takes so many seconds of CPU (default: %(default)s)"
    )
    parser.add_argument(
        "--cpu",
        type=float,
        default=ASKED_CPU_S,
        help="ask about a bug for so many seconds of CPU, in each room of tests (default: %(default)s)",
    )
    parser.add_argument("--kept", type=Path, help="a file that keeps which tests run which lines, for the next draw")
    parser.add_argument("--since", metavar="REVISION", help="only in lines that changed since then")
    parser.add_argument("--page", type=Path, help="write the figures to this file; needs --since")
    return parser.parse_args()


def _packages(paths: Iterable[Path]) -> list[str]:
    """Those of these files; of `node` the rooms."""
    parts = [path.relative_to(SOURCE).parts for path in paths]
    return sorted({"/".join(of[:2]) if of[0] == "node" else of[0] for of in parts if len(of) > 1 + (of[0] == "node")})


if __name__ == "__main__":
    main()
