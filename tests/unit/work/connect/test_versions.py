"""`plugin.version`: which versions a configuration takes."""

import pytest

from penstock.work.connect.plugins import PluginError, find_class
from penstock.work.connect.versions import fits


@pytest.mark.parametrize(
    ("version", "good", "bad"),
    [
        ("1.0", ("1.0", "1", "1.0.0", "latest", "[1.0,2.0)", "[1]", "(,1.0]"), ("1.1", "(1.0,2.0]", "(,1.0)", "[1.1]")),
        ("1.10", ("[1.9,)", "(,1.5],[1.7,)"), ("(,1.9]", "(1.10,)")),
        ("1.6", ("(1.5,1.7)",), ("(,1.5],[1.7,)",)),
        ("2.0-rc1", ("(,2.0)", "[2.0-alpha,2.0-rc1]"), ("2.0", "[2.0,)")),
        ("2.0.post1", ("(2.0,2.0.1)",), ("2.0",)),
        ("0-rc1", ("(,0]", "[,0)", "(,)", "[0-alpha,]"), ("[0,)", "(0-rc1,)", "(,0-rc1)", "[0]")),
        ("3", ("[3,3]", "[,]", "(2,]", " [1] , [3] "), ("(3,3]", "[3,3)", "[1],[2]", "(,3)", "(3,)")),
    ],
)
def test_versions_and_ranges(version: str, good: tuple[str, ...], bad: tuple[str, ...]) -> None:
    assert [wanted for wanted in good if not fits(version, wanted)] == []
    assert [wanted for wanted in bad if fits(version, wanted)] == []


@pytest.mark.parametrize("wanted", ["", "[1", "1,2", "(1.0)", "[]", "[1.0,2.0", "one two"])
def test_what_is_no_version(wanted: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        fits("1", wanted)


class Old:
    version = "0.9"


def test_a_plugin_has_the_version_that_is_asked_for() -> None:
    assert find_class("Old", {"Old": Old}, "transform", "[0.9,1.0)") is Old
    with pytest.raises(PluginError, match=r"installed in version 0\.9, and plugin\.version=1\.0 asks"):
        find_class("Old", {"Old": Old}, "transform", "1.0")
    with pytest.raises(PluginError, match="is no version"):
        find_class("Old", {"Old": Old}, "transform", "")


RISING = (
    *("0.dev", "0", "1.dev1", "1-a", "1-alpha", "1-b", "1-beta", "1-milestone", "1-m", "1-rc", "1-rc2", "1-cr"),
    *("1-snapshot", "1", "1.final", "1.post", "1.0.1-rc1", "1.0.1", "1.1", "1.2", "1.10", "2"),
)


def test_versions_in_their_order() -> None:
    for at, version in enumerate(RISING):
        assert [one for one in RISING if fits(version, one)] == [version]
        assert [one for one in RISING if fits(version, f"({one},)")] == list(RISING[:at])
        assert [one for one in RISING if fits(version, f"[{one},)")] == list(RISING[: at + 1])
        assert [one for one in RISING if fits(version, f"(,{one})")] == list(RISING[at + 1 :])
        assert [one for one in RISING if fits(version, f"(,{one}]")] == list(RISING[at:])


@pytest.mark.parametrize("same", [("1", "1.0", "1.0.0"), ("1-RC1", "1.rc1", "1.0-rc.1"), ("0", "0.0", "")])
def test_versions_that_are_one(same: tuple[str, ...]) -> None:
    assert [(one, other) for one in same for other in same if other and not fits(one, other)] == []
