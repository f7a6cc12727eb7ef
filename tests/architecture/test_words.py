"""What is written for readers means something to them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIST_CODE = re.compile(r"\((?:rows? )?[A-D]\d\d(?:(?:, | to | and )[A-D]\d\d)*\)")
"""The row of a list that is not in the repository, as in `(C` and two digits `)`."""
FOLDERS = ("src", "docs", "tests", "bench", "tools", "examples")
PAGES = (".py", ".md", ".txt")


def pages() -> Iterator[Path]:
    """All files of the repository that people read; results of measurements are none."""
    yield from ROOT.glob("*.md")
    for folder in FOLDERS:
        yield from (path for path in (ROOT / folder).rglob("*") if path.suffix in PAGES and "results" not in path.parts)


def test_no_page_names_rows_of_a_list_that_nobody_has() -> None:
    found = {str(path): codes for path in pages() if (codes := LIST_CODE.findall(path.read_text(encoding="utf-8")))}
    assert found == {}


@pytest.mark.parametrize("rows", ["C12", "B35 to B38", "rows B35 to B38", "C18, C19"])
def test_such_a_row_is_found(rows: str) -> None:
    assert LIST_CODE.search(f"an API of our own ({rows}).")
