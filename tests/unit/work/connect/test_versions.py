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
