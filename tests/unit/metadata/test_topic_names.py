import pytest

from penstock.metadata.topic_names import metric_name, topic_name_error


@pytest.mark.parametrize("name", ["flights", "a", "...", "a.b_c-D9", "x" * 249, "__consumer_offsets"])
def test_names(name: str) -> None:
    assert topic_name_error(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        (".", "cannot be called"),
        ("..", "cannot be called"),
        ("x" * 250, "250 characters"),
        ("a b", "character"),
        ("größe", "character"),
        ("a/b", "character"),
        ("a\n", "character"),
    ],
)
def test_what_is_no_name(name: str, reason: str) -> None:
    assert reason in (topic_name_error(name) or "")


def test_metrics_cannot_tell_a_dot_from_an_underscore() -> None:
    assert metric_name("a.b_c") == metric_name("a_b.c") == "a_b_c"
