"""Plants bugs in a package, one at a time, and tells which ones its tests do not notice: `make mutants`.

    python -m tools.mutants raft log --count 100 --seed 7 --minutes 30
    python -m tools.mutants --since v1.0 --page docs/mutants.md          # only in lines that changed since then

Every mutant is one change of one expression or statement. It lives in memory only: a child process is forked, its
import of that one module is given the changed code, and it runs the tests that call the changed function, the quickest
first, until one fails or a limit of time is reached; all tests that concern the package where no test calls it, as for
what runs on import. A child may use a few times the CPU time of the tests without a bug; one that uses more, or none
for a while, counts as noticed, but is listed, because a test should have failed before. The same seed over the same
code plants the same bugs.
"""

import argparse
import ast
import importlib
import os
import resource
import signal
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from itertools import accumulate
from pathlib import Path
from random import Random
from types import CodeType, ModuleType
from typing import Protocol

import pytest
from tools.changed import changed_lines, page
from tools.planter import ROOT, SOURCE, Mutant, mutants_of
from tools.touched import Tests, Touched

TESTS = {
    "raft": [
        "unit/raft",
        "golden/test_raft.py",
        "simulation/raft_kv/test_seeds.py",
        "simulation/test_simulation.py::test_seeds[0]",
    ],
    "log": [
        "unit/log",
        "property/log",
        "unit/node/test_moves_between_directories.py",
        "unit/node/test_offline_directories.py",
    ],
    "coordinator": [
        "unit/coordinator",
        "unit/node/coordinators",
        "golden/test_groups.py",
        "golden/test_consumer_groups.py",
        "property/coordinator",
        "simulation/consumer_groups/test_consumer_groups_simulation.py",
        "simulation/share_groups/test_share_groups_simulation.py",
        "simulation/share_states/test_share_states_simulation.py",
        "simulation/streams_groups/test_streams_groups_simulation.py",
        "simulation/transactions/test_transactions_simulation.py",
    ],
    "controller": [
        "unit/controller",
        "unit/node/controlling/test_policies.py",
        "golden/test_controller.py",
        "simulation/test_controller_simulation.py",
    ],
    "leadership": [
        "unit/leadership",
        "golden/test_plan.py",
        "golden/test_transfer.py",
        "golden/test_lease.py",
        "property/test_leader_plan.py",
        "property/test_replica_spread.py",
        "property/test_replica_relief.py",
        "property/test_lease.py",
        "unit/controller/test_leader_balance.py",
        "unit/cli/replicas/test_leader_balance.py",
        "unit/cli/replicas/test_relief.py",
    ],
    "replication": [
        "unit/replication",
        "property/replication",
        "unit/node/partitions",
        "golden/test_delayed.py",
        "simulation/delayed/test_delayed_simulation.py::test_seeds",
    ],
    "sharing": [
        "unit/sharing",
        "unit/node/sharing",
        "golden/test_share_partitions.py",
        "simulation/share_partitions/test_share_partitions_simulation.py",
    ],
    "metadata": [
        "unit/metadata",
        "unit/node/assembly/test_properties.py",
        "unit/node/assembly/test_protection.py",
        "property/test_broker_config.py",
        "property/test_metadata_records.py",
        "property/test_properties.py",
    ],
    "protocol": ["unit/protocol", "property/protocol", "property/test_access_rules.py"],
    "node/serving": [
        "unit/node/serving",
        "unit/node/test_added_listeners.py",
        "unit/node/api/test_rules.py",
        "unit/node/api/test_refused.py",
        "unit/node/assembly/test_access_rules.py",
        "property/test_dispatch_of_garbage.py",
    ],
    "node/api": ["unit/node/api", "unit/node/sharing", "unit/node/coordinators"],
    "cli": ["unit/cli", "golden/test_commands.py"],
    "client": ["unit/client", "golden/test_admin.py", "unit/protocol/test_numbers.py"],
    "pipeline": ["unit/pipeline", "property/pipeline"],
    "work": ["unit/work", "simulation/work", "simulation/connect/test_seeds.py"],
    "node/storage_groups": [
        "unit/node/storage_groups",
        "simulation/storage_groups/test_seeds.py",
        "simulation/storage_groups/test_hand_overs.py",
    ],
    "node/partitions": [
        "unit/node/partitions",
        "unit/node/api/broker/test_by_consensus.py",
        "unit/node/test_foreign_logs.py",
        "unit/node/test_moves_between_directories.py",
        "unit/node/test_offline_directories.py",
        "simulation/test_replication_simulation.py::test_seeds",
    ],
    "node/links": ["unit/node/partitions", "unit/node/storage_groups", "simulation/storage_groups/test_seeds.py"],
    "node/coordinators": ["unit/node/coordinators", "simulation/whole_nodes/test_groups_move.py"],
}
"""What is run for a package: its unit tests, which are all for those that are not here, and what else proves it."""

KEEPS_DATA = ("coordinator", "controller", "leadership", "log", "raft", "replicated", "replication", "sharing", "tls")
KEEPS_DATA_IN_NODE = ("controlling", "coordinators", "links", "partitions", "quorum", "sharing", "storage_groups")
OFTEN = 3
"""So many times as likely is a bug drawn from what keeps, moves or fences data as from what does not."""

ASKED_CPU_S = 30
"""One bug is played against so much of the tests that call the changed function, the quickest first."""

IDLE_S = 20
"""A child that used no CPU time for so long is at its end."""

CPU_FACTOR = 2
CPU_MINIMUM_S = 20
MEMORY_BYTES = 4 << 30
"""A child may use so many times the CPU time that the tests took without a bug while they were watched, which doubles
it, and so much memory."""


class Bug(Protocol):
    """Changed code of one file."""

    @property
    def path(self) -> Path: ...

    def tree(self) -> ast.Module: ...


class PlantingFinder(MetaPathFinder, SourceLoader):  # type: ignore[misc]  # typeshed's base classes contradict each other
    """Gives the import of one module its changed code."""

    def __init__(self, bug: Bug) -> None:
        parts = bug.path.relative_to(ROOT / "src").with_suffix("").parts
        self.name = ".".join(parts).removesuffix(".__init__")
        self.bug = bug

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return spec_from_file_location(name, self.bug.path, loader=self) if name == self.name else None

    def get_filename(self, name: str) -> str:
        return str(self.bug.path)

    def get_data(self, path: str | bytes) -> bytes:
        return self.bug.path.read_bytes()

    def get_code(self, name: str) -> CodeType:
        return compile(ast.fix_missing_locations(self.bug.tree()), self.get_filename(name), "exec")


def run_tests(tests: Sequence[str], bug: Bug | None, cpu_s: int, watched: Path | None = None) -> str:
    """What the tests say of a bug in a forked child; what each test calls is written to `watched`."""
    child = os.fork()
    if not child:
        _be_the_child(tests, bug, cpu_s, watched)
    used, since = 0, time.monotonic()
    while not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if used != (used := _cpu_ticks(child)):
            since = time.monotonic()
        elif time.monotonic() - since > IDLE_S:
            os.kill(child, signal.SIGKILL)  # it waits for what will never come
        time.sleep(0.05)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "takes too long"
    return "noticed" if os.WEXITSTATUS(status) else "survives"


def _cpu_ticks(process: int) -> int:
    return sum(map(int, Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]))


def _be_the_child(tests: Sequence[str], bug: Bug | None, cpu_s: int, watched: Path | None) -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    if bug is not None:
        for name in [name for name in sys.modules if name.partition(".")[0] in ("penstock", "tests")]:
            del sys.modules[name]  # who asks may have imported what is to be planted
        sys.meta_path.insert(0, PlantingFinder(bug))
    code = 1
    # Plain assertions: pytest would rewrite those of a package that brings a plugin, and read its modules itself.
    options = ["-q", "-p", "no:cacheprovider", "--assert=plain", *([] if watched else ["-x"])]
    with suppress(BaseException):
        touched = Touched(("penstock", "tests", "conftest")) if watched else None
        code = int(pytest.main([*options, *tests], [touched] if touched else None))
        if watched and touched:
            touched.write(watched)
    os._exit(code)


def watch(tests: Sequence[str], place: str) -> Tests:
    """See what the tests call, without a bug, and import what all children will need. One that fails is named, and not
    asked later.
    """
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "touched.json"
        run_tests(tests, None, 3600, path)
        seen = Tests(path) if path.exists() else None
    if seen is None or not seen.took_s:
        sys.exit(f"the tests of {place} do not run, or fail all, without any bug")
    for name in seen.failed:
        print(f"{place}: fails without any bug, and is not asked: {name}", flush=True)
    for name in seen.modules:
        with suppress(Exception):
            importlib.import_module(name)
    return seen


def verdict_of(mutant: Mutant, tests: Sequence[str], seen: Tests) -> str:
    """Ask the tests that call what was changed; all where that is known of none."""
    asked = seen.of(mutant.path, mutant.line)
    took_s = list(accumulate(map(seen.took_s.__getitem__, asked)))
    asked = asked[: bisect_right(took_s, ASKED_CPU_S) + 1]
    asked_s = sum(map(seen.took_s.__getitem__, asked or seen.took_s))
    all_but_failed = [*tests, *(f"--deselect={name}" for name in seen.failed)]
    return run_tests(asked or all_but_failed, mutant, int(max(CPU_MINIMUM_S, CPU_FACTOR * asked_s)))


def tests_of(place: str) -> list[str]:
    """Those of the nearest package that has some."""
    around = [place, *map(str, Path(place).parents)]
    named = next((TESTS[it] for it in around if it in TESTS), None)
    units = next(it for it in around if (ROOT / "tests" / "unit" / it).is_dir())
    return [str(ROOT / "tests" / name) for name in named or [f"unit/{units}"]]


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


def judge(place: str, drawn: Sequence[Mutant], ends: float) -> Iterator[tuple[Mutant, str]]:
    """Plant the bugs that were drawn in a package or a file, as long as there is time."""
    tests = tests_of(place)
    seen = watch(tests, place)
    print(f"{place}: {len(drawn)} bugs were drawn, {len(seen.took_s)} tests may notice", flush=True)
    for mutant in drawn:
        if time.monotonic() > ends:
            print(f"{place}: no time for more", flush=True)
            return
        yield mutant, verdict_of(mutant, tests, seen)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Plant bugs and see which ones the tests do not notice.")
    parser.add_argument("places", nargs="*", metavar="PLACE", help="a package or a file, as in log/recovery.py")
    parser.add_argument(
        "--count", type=int, default=200, help="bugs in all; most where data are kept (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="which ones (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=60, help="at most so long altogether (default: %(default)s)")
    parser.add_argument("--since", metavar="REVISION", help="only in lines that changed since then")
    parser.add_argument("--page", type=Path, help="write the figures to this file; needs --since")
    options = parser.parse_args()
    os.chdir(ROOT)
    deadline = time.monotonic() + options.minutes * 60
    changed = changed_lines(options.since) if options.since else None
    places = options.places or (list(TESTS) if changed is None else _packages(changed))
    possible = {
        place: [one for one in mutants_of(place) if changed is None or one.line in changed.get(one.path, ())]
        for place in places
    }
    drawn = draw(possible, options.count, Random(options.seed))
    figures: dict[str, tuple[int, int, dict[str, int]]] = {}
    left: list[str] = []
    for number, place in enumerate(places):
        now = time.monotonic()
        ends = now + (deadline - now) / (len(places) - number)
        tally: dict[str, int] = {}
        for mutant, verdict in judge(place, drawn[place], ends) if drawn[place] else ():
            tally[verdict] = tally.get(verdict, 0) + 1
            if verdict != "noticed":
                left.append(f"{verdict}: {mutant}")
                print(left[-1], flush=True)
        print(f"{place}: {tally}", flush=True)
        lines = sum(len(of) for path, of in (changed or {}).items() if (SOURCE / place) in (path, *path.parents))
        figures[place] = (lines, len(possible[place]), tally)
        if options.page:
            options.page.write_text(page(options.since, figures, left))


def _packages(changed: Mapping[Path, set[int]]) -> list[str]:
    """Those with tests of their own that have changed; of `node` the rooms."""
    parts = {path.relative_to(SOURCE).parts for path in changed}
    names = {"/".join(of[:2]) if of[0] == "node" else of[0] for of in parts}
    return sorted(name for name in names if name in TESTS or (ROOT / "tests" / "unit" / name).is_dir())


if __name__ == "__main__":
    main()
