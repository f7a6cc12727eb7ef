"""Which clock says that a moment has passed, by dialect; what comes then is in `test_sql_rows.py`."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Column, Date, DateTime, Integer, MetaData, Table, Text
from sqlalchemy.dialects import mssql, mysql, oracle, postgresql, sqlite

from penstock.work.connect.built_in.sql_source import AS_STORED, _beside, _beside_text, _has_passed, _newer

NOW = datetime(2026, 1, 1, 12)


class Connection:
    """Tells the time, and how it was asked."""

    def __init__(self, dialect: Any, now: datetime) -> None:
        self.dialect, self.now, self.asked = dialect, now, ""

    def scalar(self, statement: Any) -> datetime:
        self.asked = str(statement.compile(dialect=self.dialect))
        return self.now


@pytest.mark.parametrize(
    ("dialect", "has_zone", "clock"),
    [
        (postgresql, False, "LOCALTIMESTAMP"),
        (postgresql, True, "CURRENT_TIMESTAMP"),
        (oracle, False, "LOCALTIMESTAMP"),
        (mysql, False, "CURRENT_TIMESTAMP"),
        (mssql, False, "CURRENT_TIMESTAMP"),
        (sqlite, False, "CURRENT_TIMESTAMP"),
    ],
)
def test_the_databases_own_clock_tells_in_the_zone_of_the_column(dialect: Any, has_zone: bool, clock: str) -> None:
    now = NOW.replace(tzinfo=UTC) if has_zone else NOW
    connection: Any = Connection(dialect.dialect(), now)
    column: Column[Any] = Column("at", DateTime(timezone=has_zone))
    Table("t", MetaData(), column)
    passed = _has_passed(column, 1_500, connection).compile(dialect=connection.dialect)
    assert clock in connection.asked.upper()
    until = now - timedelta(milliseconds=1_500)
    assert list(passed.params.values())[-1] == (until.isoformat(" ", "milliseconds") if dialect is sqlite else until)
    assert " < " in str(passed)


@pytest.mark.parametrize("dialect", [postgresql, mysql, mssql, sqlite])
@pytest.mark.parametrize(("delay_ms", "until"), [(0, date(2026, 1, 1)), (13 * 3_600_000, date(2025, 12, 31))])
def test_a_day_has_passed_when_the_next_one_has_begun(dialect: Any, delay_ms: int, until: date) -> None:
    """Its rows are of one moment: those of the afternoon would not be later than those of the morning."""
    connection: Any = Connection(dialect.dialect(), NOW)
    column: Column[Any] = Column("day", Date)
    Table("t", MetaData(), column)
    passed = _has_passed(column, delay_ms, connection).compile(dialect=connection.dialect)
    assert list(passed.params.values()) == [until]
    assert ("LOCALTIMESTAMP" in connection.asked.upper()) is (dialect is postgresql)
    assert str(passed).startswith("t.day < ")


SETTINGS = {"incrementing.column.name": "id", "timestamp.column.name": "at", "timestamp.delay.interval.ms": 0}


@pytest.mark.parametrize(
    ("dialect", "kind", "is_text"),
    [(sqlite, DateTime, True), (sqlite, Date, False), (sqlite, Text, False), (postgresql, DateTime, False)],
)
@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
def test_only_sqlites_moments_are_compared_as_texts(dialect: Any, kind: Any, is_text: bool, mode: str) -> None:
    connection: Any = Connection(dialect.dialect(), NOW)
    table = Table("t", MetaData(), Column("id", Integer), Column("at", kind))
    for last in ({}, {"incrementing": 1, "timestamp": "2020-01-01 00:00:00"}):
        said = str(_newer(table, {**SETTINGS, "mode": mode}, last, connection).compile(dialect=connection.dialect))
        assert (f'AS "{AS_STORED}"' in said) is is_text
        assert ("t.id >" in said) is (bool(last) and mode != "timestamp")
        assert ("t.at IS NOT NULL" in said, "t.id IS NOT NULL" in said) == (True, mode != "timestamp")


@pytest.mark.parametrize(
    ("last", "values"),
    [
        ("2020-01-01 00:00:02", ["2020-01-01 00:00:02"]),
        ("2020-01-01T00:00:02", ["2020-01-01T00:00:02", "2020-01-01 00:00:02.000000"]),
        ("2020-01-01Tno time", ["2020-01-01Tno time"]),
        ("2020-01-01", ["2020-01-01"]),
        (7, ["7"]),
    ],
)
def test_an_offset_of_earlier_versions_stands_for_both_forms(last: Any, values: list[str]) -> None:
    column: Column[Any] = Column("at", DateTime)
    Table("t", MetaData(), column)
    later, same = (one.compile(dialect=sqlite.dialect()) for one in _beside_text(column, {"timestamp": last}))
    told = {one for value in same.params.values() for one in (value if isinstance(value, list) else [value])}
    assert told == set(values)
    if len(values) == 1:
        assert str(later) == "t.at > ?"


@pytest.mark.parametrize("last", ["no day", 7])
def test_what_is_no_moment_is_compared_as_it_is(last: Any) -> None:
    for kind in (Date, Text):
        column: Column[Any] = Column("at", kind)
        assert [one.right.value for one in _beside(column, {"timestamp": last})] == [last, last]
