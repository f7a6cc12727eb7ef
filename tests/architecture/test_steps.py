"""Steps of long answers are counted by `Pace`: a remainder is missed by whoever counts in portions."""

import re
from pathlib import Path

NODE = Path(__file__).resolve().parents[2] / "src/penstock/node"
REMAINDER = re.compile(r"% [A-Z_]+_(A|PER)_STEP")


def test_no_handler_looks_at_remainders() -> None:
    found = [str(path) for path in NODE.rglob("*.py") if REMAINDER.search(path.read_text(encoding="utf-8"))]
    assert found == []
