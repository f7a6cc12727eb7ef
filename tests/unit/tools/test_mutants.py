"""The tool that plants bugs: what it plants, and that a planted bug is what the tests of a package see."""

import ast
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from tools.mutants import draw
from tools.planter import ROOT, Mutant, Planter, mutants_of

SOURCE = '''"""A docstring."""
LIMIT: int = 3
LONGEST = 5 * 1024
TWO, THREE_MS = 20, 30


def f(a: int, b: int) -> bool:
    """Not mutated."""
    assert a < b, "nor this"
    nor = a < end_ms
    nor = a < _MAX_SIZE
    if a <= b and not b:
        return min(a, b) + 1 == 2
    logger.info("nor %d", 7)
    raise ValueError(f"nor {a + b}")


@compiled
def nor(a: int) -> int:
    return a + 1
'''


def changes(source: str) -> list[str]:
    planter = Planter(ROOT / "src" / "penstock" / "some.py")
    planter.visit(ast.parse(source))
    return [mutant.what for mutant in planter.found]


def test_what_can_be_planted() -> None:
    assert changes(SOURCE) == [
        "3 -> 4",
        "a <= b -> a < b",
        "not b -> b",
        "a <= b and (not b) -> a <= b or not b",
        "a <= b and (not b) -> not b",
        "a <= b and (not b) -> a <= b",
        "min(a, b) -> max(a, b)",
        "1 -> 2",
        "min(a, b) + 1 -> min(a, b) - 1",
        "2 -> 3",
        "min(a, b) + 1 == 2 -> min(a, b) + 1 != 2",
        "if a <= b and (not b) -> if not (a <= b and (not b))",
    ]


@pytest.mark.parametrize("number", range(12))
def test_one_bug_at_a_time_is_planted_and_nothing_else(number: int) -> None:
    what = changes(SOURCE)[number]
    planted = ast.unparse(Planter(ROOT / "src" / "penstock" / "some.py", number).visit(ast.parse(SOURCE)))
    after = what.split(" -> ")[1]
    assert after in planted
    assert len(set(planted.splitlines()) ^ set(ast.unparse(ast.parse(SOURCE)).splitlines())) == 2


def test_the_same_bugs_are_possible_each_time() -> None:
    assert mutants_of("replication") == mutants_of("replication")
    assert len(mutants_of("replication")) > 50


def test_nothing_is_planted_beside_spark() -> None:
    names = {one.path.relative_to(ROOT / "src" / "penstock" / "pipeline").parts[0] for one in mutants_of("pipeline")}
    assert "spec" in names
    assert not names & {"running", "session.py"}


def test_what_keeps_data_is_drawn_three_times_as_often() -> None:
    possible = {place: [Mutant(ROOT / place, number, 1, "") for number in range(4_000)] for place in ("log", "cli")}
    drawn = draw(possible, 400, Random(7))
    assert drawn == draw(possible, 400, Random(7))
    assert len(drawn["log"]) + len(drawn["cli"]) == 400
    assert 2 < len(drawn["log"]) / len(drawn["cli"]) < 4
    assert [len(some) for some in draw(possible, 9_000, Random(7)).values()] == [4_000, 4_000]


def in_a_process_of_its_own(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True).stdout


FROM_TOOLS = """
import os
import sys
from tools.mutants import verdict_of, watch
from tools.planter import mutants_of
"""


def test_only_who_calls_what_was_changed_is_asked(tmp_path: Path) -> None:
    (tmp_path / "test_voters.py").write_text(
        "from penstock.raft.voters import Quorum, Voter, ReplicaKey\n"
        "def quorum():\n"
        "    return Quorum.of([Voter(ReplicaKey(1))])\n"
        "def test_size():\n"
        "    assert len(quorum().ids) == 1\n"
        "def test_majority():\n"
        "    assert quorum().majority == 1\n"
    )
    told = in_a_process_of_its_own(
        FROM_TOOLS + f"os.chdir({str(tmp_path)!r})\nsys.path.remove('')\ntests = ['.']\n"
        "seen = watch(tests, 'raft')\n"
        "found = [m for m in mutants_of('raft') if m.path.name == 'voters.py' and 'len(self.voters)' in m.what]\n"
        "for m in found:\n"
        "    print([name.split('::')[1] for name in seen.of(m.path, m.line)], verdict_of(m, tests, seen))\n"
        "print(seen.of(found[0].path, 1), 'asyncio' in seen.modules, 'penstock' in seen.modules)"
    )
    *asked, last = told.splitlines()
    assert asked
    assert set(asked) == {"['test_majority'] noticed"}
    assert last == "[] True False", "a line of no function is a matter for all tests"


def test_a_test_that_fails_without_a_bug_is_named_and_not_asked(tmp_path: Path) -> None:
    (tmp_path / "test_majority.py").write_text(
        "from penstock.raft.voters import Quorum, Voter, ReplicaKey\n"
        "def test_broken():\n"
        "    assert Quorum.of([Voter(ReplicaKey(1))]).majority == 7\n"
        "def test_weak():\n"
        "    assert Quorum.of([Voter(ReplicaKey(1))]).majority\n"
    )
    told = in_a_process_of_its_own(
        FROM_TOOLS + f"os.chdir({str(tmp_path)!r})\nsys.path.remove('')\ntests = ['.']\n"
        "seen = watch(tests, 'raft')\n"
        "found = next(m for m in mutants_of('raft') if m.path.name == 'voters.py' and 'len(self.voters)' in m.what)\n"
        "at_import = next(m for m in mutants_of('raft') if not seen.of(m.path, m.line))\n"
        "print(verdict_of(found, tests, seen), verdict_of(at_import, tests, seen))"
    )
    first, second = told.splitlines()
    assert first.startswith("raft: fails without any bug, and is not asked: ")
    assert first.endswith("test_majority.py::test_broken")
    assert second == "survives survives"


def test_tests_that_hang_are_not_waited_for_for_long(tmp_path: Path) -> None:
    (tmp_path / "test_hang.py").write_text("import threading\ndef test_hang():\n    threading.Event().wait()\n")
    told = in_a_process_of_its_own(
        f"from tools import mutants\nmutants.IDLE_S = 0.5\nprint(mutants.run_tests([{str(tmp_path)!r}], None, 60))"
    )
    assert told.strip() == "takes too long"


def test_a_planted_bug_is_seen_by_the_tests(tmp_path: Path) -> None:
    """In a process of its own: the code of this one is not to be changed."""
    (tmp_path / "test_majority.py").write_text(
        "from penstock.raft.voters import Quorum, Voter, ReplicaKey\n"
        "def test_majority():\n"
        "    assert Quorum.of([Voter(ReplicaKey(i)) for i in range(4)]).majority == 3\n"
    )
    told = in_a_process_of_its_own(
        "from tools.mutants import run_tests\nfrom tools.planter import mutants_of\n"
        "found = [m for m in mutants_of('raft') if m.path.name == 'voters.py' and 'len(self.voters)' in m.what]\n"
        f"print([run_tests([{str(tmp_path)!r}], mutant, 60) for mutant in (None, *found)])"
    )
    assert told.strip() == str(["survives", *["noticed"] * told.count("noticed")])
    assert "noticed" in told
