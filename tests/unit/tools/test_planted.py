"""Bugs that are planted to see that tests notice them: the table is of the code as it is."""

import subprocess
import sys
from collections.abc import Iterable

import pytest
from tests.simulation import test_controller_simulation as controller
from tests.simulation import test_simulation as core
from tests.simulation.storage_groups import test_seeds as storage_groups
from tools.planted import PlantedBug, blind_tests, planted_bugs
from tools.planter import ROOT

BUGS = planted_bugs()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.what)
def test_a_bug_can_be_planted_and_names_tests_that_are_there(bug: PlantedBug) -> None:
    bug.tree()
    assert bug.noticed_by
    for name in bug.noticed_by:
        path, _, function = name.partition("::")
        assert f"def {function.partition('[')[0]}(" in (ROOT / "tests" / path).read_text()


def test_each_set_of_parameters_that_is_named_is_there() -> None:
    names = {name for bug in BUGS for name in bug.noticed_by if "[" in name}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-m", ""]
    collected = subprocess.run([*command, *sorted(names)], cwd=ROOT / "tests", capture_output=True, text=True)
    assert collected.returncode == 0, collected.stderr


@pytest.mark.parametrize(
    ("test", "kept"),
    [
        ("simulation/test_simulation.py::test_seeds_that_failed_once", core.KEPT),
        ("simulation/test_controller_simulation.py::test_seeds_that_failed_once", controller.KEPT),
        ("simulation/storage_groups/test_seeds.py::test_the_rules_hold_where_a_bug_was_found", storage_groups.KEPT),
    ],
)
def test_a_seed_is_kept_for_a_bug(test: str, kept: Iterable[object]) -> None:
    named = [name for bug in BUGS for name in bug.noticed_by]
    assert {f"{test}[{seed}]" for seed in kept} <= set(named)


def test_a_test_is_blind_that_passes_with_the_bug_or_fails_without_it() -> None:
    (bug,) = (bug for bug in BUGS if bug.what == "another user goes on with a session")
    assert blind_tests(bug) == []
    others = tuple(f"unit/node/serving/test_login.py::test_{one}" for one in ("a_client_logs_in", "of_no_name"))
    assert blind_tests(PlantedBug(bug.what, bug.path, bug.lines, bug.becomes, others)) == [*others]
