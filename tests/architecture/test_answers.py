"""Whether an answer comes later is asked in one way: a class that looks awaitable to one place would not to another."""

from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "penstock"
ASKED_IN = SOURCE / "node" / "serving" / "slices.py"


def test_one_function_asks_whether_an_answer_comes_later() -> None:
    assert [path for path in SOURCE.rglob("*.py") if '"__await__"' in path.read_text("utf-8")] == [ASKED_IN]
