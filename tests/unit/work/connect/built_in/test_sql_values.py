"""Values for columns, and refusals that may pass; what servers say to it is in `tests/wire/test_sql_servers.py`."""

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import ARRAY, JSON, BigInteger, Column, Date, DateTime, MetaData, Table, Text, Time
from sqlalchemy.exc import DataError, DBAPIError, InternalError, OperationalError

from penstock.work.connect.built_in.sql_values import fitting, may_pass, without_json_nulls

TABLE = Table(
    "t",
    MetaData(),
    Column("number", BigInteger()),
    Column("text", Text()),
    Column("json", JSON()),
    Column("list", ARRAY(BigInteger())),
    Column("local", DateTime()),
    Column("moment", DateTime(timezone=True)),
    Column("day", Date()),
    Column("clock", Time()),
    Column("clock with zone", Time(timezone=True)),
)
IN_ROME = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize(
    ("column", "content", "fits"),
    [
        ("number", 2.0, 2.0),
        ("number", Decimal("2.0"), Decimal("2.0")),
        ("number", "7", "7"),
        ("number", "seven", "seven"),
        ("text", {"a": [1]}, '{"a": [1]}'),
        ("json", {"a": [date(2026, 1, 1)]}, {"a": ["2026-01-01"]}),
        ("json", "text", "text"),
        ("list", [1, 2], [1, 2]),
        ("list", {"a": 1}, '{"a": 1}'),
        ("local", "2026-01-01T02:00:00+02:00", datetime(2026, 1, 1)),
        ("local", IN_ROME, datetime(2026, 1, 1)),
        ("local", "2026-01-01T02:00:00", datetime(2026, 1, 1, 2)),
        ("local", "now", "now"),
        ("moment", "2026-01-01T00:00:00+00:00", datetime(2026, 1, 1, tzinfo=UTC)),
        ("moment", IN_ROME, IN_ROME),
        ("day", "2026-01-31", date(2026, 1, 31)),
        ("day", "2026-01-31T00:00:00", date(2026, 1, 31)),
        ("day", datetime(2026, 1, 31), date(2026, 1, 31)),
        ("day", "yesterday", "yesterday"),
        ("clock", "10:11:12", time(10, 11, 12)),
        ("clock", "noon", "noon"),
        ("clock with zone", "10:11:12+00:00", time(10, 11, 12, tzinfo=UTC)),
        ("text", None, None),
    ],
)
def test_values_are_as_their_column_takes_them(column: str, content: Any, fits: Any) -> None:
    assert fitting({column: content}, TABLE, "postgresql") == {column: fits}


def test_what_a_column_would_change_is_refused() -> None:
    for number in (1.5, float("nan"), Decimal("1.5"), "1.5", "nan", "sNaN"):
        with pytest.raises(ValueError, match=f"column number holds whole numbers, and {number} is none"):
            fitting({"number": number}, TABLE, "postgresql")
    assert fitting({"number": 1.5}, TABLE, "sqlite") == {"number": 1.5}
    for day in ("2026-01-01T10:00:00", datetime(2026, 1, 1, 10), "2026-01-01T00:00:00+02:00"):
        with pytest.raises(ValueError, match=r"column day holds days, and .* is a moment"):
            fitting({"day": day}, TABLE, "postgresql")
    for clock in ("10:00:00+02:00", time(10, tzinfo=UTC), "2026-01-01T10:00:00"):
        with pytest.raises(ValueError, match=r"column clock holds times of a day without a zone, and .* says more"):
            fitting({"clock": clock}, TABLE, "postgresql")
    with pytest.raises(ValueError, match="table t has no column a, b"):
        fitting({"a": 1, "text": "x", "b": 2}, TABLE, "sqlite")


def test_nothing_is_null_in_json_too() -> None:
    kind = without_json_nulls(Table("t", MetaData(), Column("a", JSON()))).c.a.type
    assert isinstance(kind, JSON)
    assert kind.none_as_null


class SaysError(Exception):
    def __init__(self, number: int = 0, state: str | None = None) -> None:
        super().__init__(number, "said")
        self.sqlstate = state


@pytest.mark.parametrize(
    ("kind", "cause", "passes"),
    [
        (OperationalError, SaysError(), True),
        (OperationalError, SaysError(1213, "40001"), True),
        (OperationalError, SaysError(4025, "23000"), False),
        (OperationalError, SaysError(1364, "HY000"), False),
        (OperationalError, SaysError(1054, "42S22"), False),
        (OperationalError, SaysError(1644), False),
        (OperationalError, SaysError(state="54000"), False),
        (InternalError, SaysError(state="25006"), True),
        (DataError, SaysError(state="22003"), False),
        (DataError, SaysError(), False),
        (InternalError, SaysError(state="25007"), False),
        (OperationalError, SaysError(state="25006"), True),
        (OperationalError, SaysError(state="08006"), True),
        *((OperationalError, SaysError(state=f"{of}000"), False) for of in ("22", "23", "42", "54")),
    ],
)
def test_what_is_refused_for_good_is_not_tried_for_ever(kind: type[DBAPIError], cause: Any, passes: bool) -> None:
    assert may_pass(kind("", {}, cause)) == passes
    assert may_pass(kind("", {}, cause, connection_invalidated=True))


REFUSED = (1292, 1364, 1366, 1411, 1416, 1526, 1644, 1690, 3140, 3819, 4025)


def test_what_mysql_refuses_has_these_numbers_and_no_others() -> None:
    near = {number + more for number in REFUSED for more in (-1, 0, 1)}
    assert {one for one in near if not may_pass(OperationalError("", {}, SaysError(one)))} == set(REFUSED)
    assert may_pass(OperationalError("", {}, Exception())), "it has no number at all"
