"""Which offsets sources of files and tables let be set from outside: each counts, wherever it stands."""

from typing import Any

import pytest

from penstock.work.connect.built_in.file_source import FileStreamSourceConnector
from penstock.work.connect.built_in.sql_source import SqlSourceConnector

GONE: tuple[dict[str, Any], None] = ({"filename": "f"}, None)
GOOD: tuple[dict[str, Any], dict[str, Any]] = ({"filename": "f"}, {"position": 0})


@pytest.mark.parametrize("offsets", [[], [GONE], [GOOD], [GONE, GOOD], [GOOD, GONE]])
def test_what_can_be_is_taken(offsets: list[Any]) -> None:
    FileStreamSourceConnector().alter_offsets({}, offsets)


@pytest.mark.parametrize(
    "wrong",
    [
        ({"filename": 1}, {"position": 0}),
        ({}, {"position": 0}),
        ({"filename": "f"}, {"position": -1}),
        ({"filename": "f"}, {"position": True}),
        ({"filename": "f"}, {"position": "0"}),
        ({"filename": "f"}, {}),
    ],
)
@pytest.mark.parametrize("before", [[], [GONE], [GOOD]])
def test_what_cannot_be_is_refused_behind_what_can(before: list[Any], wrong: Any) -> None:
    with pytest.raises(ValueError, match="a partition is"):
        FileStreamSourceConnector().alter_offsets({}, [*before, wrong])


TABLE = {"table": "t"}
BOTH = "timestamp+incrementing"


@pytest.mark.parametrize(
    ("mode", "offset", "can_be"),
    [
        ("incrementing", {"incrementing": 1}, True),
        ("incrementing", {"incrementing": "1"}, False),
        ("incrementing", {"incrementing": True}, False),
        ("incrementing", {}, False),
        ("timestamp", {"timestamp": "2026-01-01"}, True),
        ("timestamp", {"timestamp": None}, False),
        ("timestamp", {"timestamp": 1, "incrementing": 1}, False),
        ("timestamp", {}, True),
        (BOTH, {"timestamp": 1.5, "incrementing": 1}, True),
        (BOTH, {"timestamp": 1.5, "incrementing": 1.5}, False),
        (BOTH, {"incrementing": 1}, False),
        ("bulk", {}, True),
        ("bulk", {"incrementing": 1}, False),
    ],
)
def test_an_offset_of_a_table_has_the_parts_of_its_mode(mode: str, offset: dict[str, Any], can_be: bool) -> None:
    config = {"connection.url": "sqlite:///x", "mode": mode, "topic.prefix": "t-"}
    changes: list[Any] = [(TABLE, None), (TABLE, offset)]
    if can_be:
        SqlSourceConnector().alter_offsets(config, changes)
        with pytest.raises(ValueError, match="a partition is"):
            SqlSourceConnector().alter_offsets(config, [({"table": 1}, offset or {"other": 1})])
    else:
        with pytest.raises(ValueError, match="a partition is"):
            SqlSourceConnector().alter_offsets(config, changes)
