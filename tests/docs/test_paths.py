"""The files of code that pages name are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = ("src", "tests", "bench", "tools", "examples")
FILES = [str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
OF_OTHERS = {"connect_rest_test.py", "pipeline.py", "steps.py", "flights.py", "test_shop.py", "conftest.py"}
"""Files that readers are told to write, and one of Apache Kafka."""


def named(page: Path) -> set[str]:
    return set(re.findall(r"`([\w/]+\.py)`", page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_are_there(page: Path) -> None:
    missing = {name for name in named(page) - OF_OTHERS if not any(f"/{file}".endswith(f"/{name}") for file in FILES)}
    assert missing == set()
