"""Fenced blocks of the documents, found by what stands after their three backquotes."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\S[^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, mark: str) -> list[str]:
    """The blocks of a page that are marked so, such as `python run`; a page without any has lost its marks."""
    found = [text for label, text in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")) if label == mark]
    assert found, f"{page} has no block marked {mark!r}"
    return found
