"""Each case of Kafka 4.4's tests of groups has its row here: which of our tests holds the same, or why none is needed.

`kafka_cases/names` has the names of Kafka's cases, a file for each of its classes. In the table of a class a line that
is not indented says where: a file below `tests` with a test, or a table, in it, perhaps with a row in brackets; a
transcript with the heading of a part of it in brackets; or a reason after a dash. The names below it are the cases that
are held there; in a transcript with `::cases` they are named as well.
"""

import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parents[1]
TABLES: Final = Path(__file__).parent / "kafka_cases"
CLASSES: Final = sorted(path.stem for path in (TABLES / "names").glob("*.txt"))


def table(name: str) -> list[tuple[str, list[str]]]:
    """Places, or reasons, with the cases of each."""
    found: list[tuple[str, list[str]]] = []
    for line in (TABLES / f"{name}.txt").read_text().splitlines():
        if line.startswith(" "):
            found[-1][1].extend(line.split())
        elif line:
            found.append((line, []))
    return found


@cache
def text(path: str) -> str:
    return (TESTS / path).read_text()


def headings(path: str) -> list[str]:
    """Of the parts of a transcript that have commands."""
    parts = re.findall(r"^((?:#.*\n)+)(?!#)\S", text(path), re.MULTILINE)
    return [part.splitlines()[0] for part in parts]


@pytest.mark.parametrize("name", CLASSES)
def test_each_case_has_a_row(name: str) -> None:
    cases = [case for _, cases in table(name) for case in cases]
    known = (TABLES / "names" / f"{name}.txt").read_text().split()
    assert set(known) - set(cases) == set(), "without a row"
    assert set(cases) - set(known) == set(), "no case of Kafka's"
    assert len(cases) == len(set(cases)), "more rows than one"


@pytest.mark.parametrize("name", CLASSES)
def test_each_row_leads_to_a_test(name: str) -> None:
    for place, cases in table(name):
        assert cases, place
        if place.startswith("- "):
            continue
        if (part := re.fullmatch(r"(golden/\w+/\w+\.txt)\[(.+)]", place)) is not None:
            assert f"# {part[2]}" in headings(part[1]), place
            continue
        path, _, test = place.partition("::")
        match = re.fullmatch(r"(\w+)(?:\[(.+)])?", test)
        assert match is not None, f"{place}: which test, or which part of it?"
        if match[1] == "cases":  # a transcript in whose prose they are named
            assert [case for case in cases if not re.search(rf"^#.*\b{case}\b", text(path), re.MULTILINE)] == [], place
        elif match[1].startswith("test_"):
            assert f"def {match[1]}(" in text(path), place
            assert match[2] is None or f'"{match[2]}":' in text(path), place
        else:  # a table, whose rows have Kafka's names
            assert f"{match[1]}: " in text(path), place
            assert all(f'"{case}":' in text(path) for case in ([match[2]] if match[2] else cases)), place
