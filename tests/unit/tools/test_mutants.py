"""The tool that plants bugs: what it plants, and that a planted bug is what the tests of a package see."""

import ast
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tools.mutants import draw, marks
from tools.other_code import CannotSwapError, swap
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


def test_what_is_marked_to_make_no_difference_is_still_there() -> None:
    for path, line, _ in marks():
        assert line in map(str.strip, path.read_text().splitlines()), f"{path.name} has no such line"


def test_what_keeps_data_is_drawn_three_times_as_often() -> None:
    possible = {place: [Mutant(ROOT / place, number, 1, "") for number in range(4_000)] for place in ("log", "cli")}
    drawn = draw(possible, 400, Random(7))
    assert drawn == draw(possible, 400, Random(7))
    assert len(drawn["log"]) + len(drawn["cli"]) == 400
    assert 2 < len(drawn["log"]) / len(drawn["cli"]) < 4
    assert [len(some) for some in draw(possible, 9_000, Random(7)).values()] == [4_000, 4_000]


def in_a_process_of_its_own(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True).stdout


ASKED = """
import os
import sys
from pathlib import Path
from tools.asking import Asker
from tools.planter import mutants_of

os.chdir({directory!r})
sys.path.remove("")
bugs = [bug for bug in mutants_of("raft") if {words!r} in str(bug)]

def judge(asker):
    asker.watch(asker.tests)
    for number in range(len(bugs)):
        verdict = asker.ask(number, asker.tests)
        run = " ".join(test.item.name for test in asker.tests if number in test.ran)
        broken = " ".join(test.item.name for test in asker.tests if test.is_broken)
        print("told:", verdict, "|", run, "|", broken)

Asker(bugs, judge, {how}).collect(["."])
"""


def asked(directory: Path, words: str, tests: str, how: str = "") -> list[str]:
    """Verdicts on the bugs of `raft` with these words in them, who runs their lines, who is broken."""
    (directory / "test_some.py").write_text(tests)
    told = in_a_process_of_its_own(ASKED.format(directory=str(directory), words=words, how=how))
    return [line.removeprefix("told: ") for line in told.splitlines() if line.startswith("told: ")]


VOTERS = "from penstock.raft.voters import Quorum, Voter, ReplicaKey\n"


def test_only_who_runs_the_line_is_asked(tmp_path: Path) -> None:
    told = asked(
        tmp_path,
        "len(self.voters) // 2 ->",
        VOTERS + "def test_size():\n    assert len(Quorum.of([Voter(ReplicaKey(1))]).ids) == 1\n"
        "def test_majority():\n    assert Quorum.of([Voter(ReplicaKey(1))]).majority == 1\n",
    )
    assert told == ["noticed | test_majority | "]


def test_what_runs_on_import_is_asked_of_modules_that_are_imported_anew(tmp_path: Path) -> None:
    """And of tests that run any function of the file."""
    told = asked(
        tmp_path,
        "settings.py:29: False",
        "import penstock.raft.settings\ndef test_joins():\n    from penstock.raft.settings import RaftSettings\n"
        "    settings = RaftSettings()\n    assert settings.lease_ms\n    assert not settings.auto_join\n",
    )
    assert told == ["noticed | test_joins | "]


def test_a_test_that_fails_without_a_bug_is_not_asked(tmp_path: Path) -> None:
    told = asked(
        tmp_path,
        "len(self.voters) // 2 ->",
        VOTERS + "def test_broken():\n    assert Quorum.of([Voter(ReplicaKey(1))]).majority == 7\n"
        "def test_weak():\n    assert Quorum.of([Voter(ReplicaKey(1))]).majority\n",
    )
    assert told == ["survives | test_broken test_weak | test_broken"]


def test_nor_one_that_fails_without_the_bug_after_the_tests_before_it(tmp_path: Path) -> None:
    told = asked(
        tmp_path,
        "len(self.voters) // 2 ->",
        VOTERS + "seen = []\ndef majority():\n    return Quorum.of([Voter(ReplicaKey(1))]).majority\n"
        "def test_first():\n    seen.extend(range(200_000))\n    assert majority() and sum(seen)\n"
        "def test_second():\n    assert majority() and seen\n",
    )
    assert told == ["survives | test_first test_second | test_second"]


def test_a_line_that_no_test_runs(tmp_path: Path) -> None:
    told = asked(tmp_path, "len(self.voters) // 2 ->", VOTERS + "def test_nothing():\n    assert Quorum\n")
    assert told == ["no test runs it |  | "]


def test_who_was_not_asked_in_time_could_have_noticed_it(tmp_path: Path) -> None:
    told = asked(
        tmp_path,
        "len(self.voters) // 2 ->",
        VOTERS + "def test_majority():\n    assert Quorum.of([Voter(ReplicaKey(1))]).majority == 1\n",
        "most_s=0",
    )
    assert told == ["not asked fully | test_majority | "]


def test_which_tests_run_a_line_is_kept_for_other_draws(tmp_path: Path) -> None:
    """What has not changed is not run again."""
    kept, size = tmp_path / "kept", "def test_size():\n    assert len(Quorum.of([Voter(ReplicaKey(1))]).ids) == 1\n"
    how = f"kept=Path({str(kept)!r}), files=[bugs[0].path]"
    asked(tmp_path, "len(self.voters) // 2 ->", VOTERS + size, how)
    (tmp_path / "test_other.py").write_text(
        f"{VOTERS}def test_majority():\n    assert Quorum.of([Voter(ReplicaKey(1))]).majority == 1\n"
    )
    for _ in range(2):
        told = asked(tmp_path, "len(self.voters) // 2 ->", VOTERS + size, how)
        assert told == ["noticed | test_majority | "]
        assert [row.split()[0] for row in kept.read_text().splitlines()] == [
            '["test_some.py::test_size',
            '["test_other.py::test_majority',
        ]


LIVING = """
class One:
    def said(self):
        return 1

class Two(One):
    def said(self):
        return super().said()

functions = [One.said, Two.said]
pair = [lambda: 1, lambda: 2]
"""


def living(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "living"}
    exec(compile(source, "living.py", "exec"), names)
    return names


def test_what_lives_is_given_the_changed_code() -> None:
    names = living(LIVING)
    two = names["Two"]()
    swap([*names["functions"], *names["pair"]], compile(LIVING.replace("return 1", "return 7"), "living.py", "exec"))
    assert two.said() == 7


def test_what_the_collector_passes_by_lives(tmp_path: Path) -> None:
    """The tests' own conftest.py says so of all that was imported."""
    (tmp_path / "conftest.py").write_text("import gc\n\ndef pytest_collection_finish():\n    gc.freeze()\n")
    told = asked(
        tmp_path,
        "len(self.voters) // 2 ->",
        VOTERS + "def test_majority():\n    assert Quorum.of([Voter(ReplicaKey(1))]).majority == 1\n",
    )
    assert told == ["noticed | test_majority | "]


@pytest.mark.parametrize(
    ("are", "become", "what"),
    [
        ("return super().said()", "return 1", "Two.said"),
        ("lambda: 2", "lambda: 3", "<lambda>"),
        ("pair = ", "pear = ", "none of them is another"),
    ],
    ids=["it takes no class any more", "two stand in one line", "it stands in none"],
)
def test_what_cannot_be_given_the_changed_code_is_refused(are: str, become: str, what: str) -> None:
    names = living(LIVING)
    with pytest.raises(CannotSwapError, match=what):
        swap([*names["functions"], *names["pair"]], compile(LIVING.replace(are, become), "living.py", "exec"))


def test_tests_that_hang_are_not_waited_for_for_long(tmp_path: Path) -> None:
    (tmp_path / "test_hang.py").write_text("import threading\ndef test_hang():\n    threading.Event().wait()\n")
    told = in_a_process_of_its_own(
        "from tools import asking, children\nchildren.IDLE_S = 0.5\n"
        f"print(asking.run_tests([{str(tmp_path)!r}], None, 60))"
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
        "from tools.asking import run_tests\nfrom tools.planter import mutants_of\n"
        "found = [m for m in mutants_of('raft') if m.path.name == 'voters.py' and 'len(self.voters)' in m.what]\n"
        f"print([run_tests([{str(tmp_path)!r}], mutant, 60) for mutant in (None, *found)])"
    )
    assert told.strip() == str(["survives", *["noticed"] * told.count("noticed")])
    assert "noticed" in told
