"""Plants bugs that were found once and could come again, and asks the tests that shall notice them: `make planted`.

    python -m tools.planted                 # all of tests/planted
    python -m tools.planted fenced          # those with this word in them

A bug is some lines of a file as they are and what they become; with it stand the tests, or kept seeds of a simulation,
that must fail then, and not without it. As in `mutants.py` it lives in the memory of a forked child only.
"""

import argparse
import ast
import os
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.asking import run_tests
from tools.planter import ROOT, SOURCE

FOLDER = ROOT / "tests" / "planted"
CPU_S = 600
"""A test may use so much."""


@dataclass(frozen=True)
class PlantedBug:
    what: str
    path: Path
    lines: str
    becomes: str
    noticed_by: tuple[str, ...]
    """Tests as pytest names them, below `tests`."""

    def tree(self) -> ast.Module:
        text = self.path.read_text()
        if text.count(self.lines) != 1:
            raise ValueError(f"{self.what}: its lines are {text.count(self.lines)} times in {self.path}, not once")
        return ast.parse(text.replace(self.lines, self.becomes))


def planted_bugs() -> list[PlantedBug]:
    return [
        PlantedBug(one["what"], SOURCE / one["file"], one["is"], one["becomes"], tuple(one["noticed_by"]))
        for path in sorted(FOLDER.glob("*.toml"))
        for one in tomllib.loads(path.read_text())["bug"]
    ]


def blind_tests(bug: PlantedBug) -> Sequence[str]:
    """The tests of a bug that do not notice it, or that fail without it."""
    return [name for name in bug.noticed_by if verdict(name, None) != "survives" or verdict(name, bug) == "survives"]


@cache
def verdict(name: str, bug: PlantedBug | None) -> str:
    return run_tests([str(ROOT / "tests" / name)], bug, CPU_S)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Plant known bugs and see that the tests notice them.")
    parser.add_argument("word", nargs="?", default="", help="only those with this word in their description or tests")
    word = parser.parse_args().word
    os.chdir(ROOT)
    survived = 0
    for bug in planted_bugs():
        if word not in " ".join((bug.what, *bug.noticed_by)):
            continue
        blind = blind_tests(bug)
        survived += bool(blind or not bug.noticed_by)
        print(
            f"{'survives' if blind or not bug.noticed_by else 'noticed'}: {bug.what}", *blind, sep="\n    ", flush=True
        )
    sys.exit(f"{survived} bugs survive" if survived else 0)


if __name__ == "__main__":
    main()
