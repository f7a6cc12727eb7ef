"""The name of a topic that the cluster keeps for itself stands in one place, which says what may be done with it."""

import ast
from pathlib import Path

from penstock.protocol.internal_topics import INTERNAL_TOPICS

SOURCE = Path(__file__).resolve().parents[2] / "src" / "penstock"
TABLE = SOURCE / "protocol" / "internal_topics.py"


def test_code_has_the_names_of_internal_topics_from_their_table() -> None:
    found = {
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        if path != TABLE
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in INTERNAL_TOPICS
    }
    assert found == set()
