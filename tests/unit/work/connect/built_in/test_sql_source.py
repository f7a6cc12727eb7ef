"""Which clock says that a moment has passed, by dialect; what comes then is in `tests/wire/test_sql_connectors.py`."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Column, DateTime, MetaData, Table
from sqlalchemy.dialects import mssql, mysql, oracle, postgresql, sqlite

from penstock.work.connect.built_in.sql_source import _has_passed

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
