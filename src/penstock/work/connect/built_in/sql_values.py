"""How values go into the columns of a table, and which refusals of a database may pass.

What a column cannot hold as it is, is refused here where the database would change it in silence: PostgreSQL and MySQL
round 1.5 for a column of whole numbers, and drop the zone of a moment for a column without one, or its time for one
of days.
"""

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from sqlalchemy import ARRAY, JSON, Date, DateTime, Integer, Table, Time
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.types import TypeEngine

Row = dict[str, Any]
KEEPS_FRACTIONS: Final = "sqlite"
"""The dialect whose columns of whole numbers hold others as well."""
READ_ONLY: Final = "25006"
"""What PostgreSQL says as long as it is a stand-by."""
REFUSING_STATES: Final = ("22", "23", "42", "54")
"""Classes of SQLSTATE: a value, a rule of the table, a statement is wrong, or larger than an index takes, and is so
again the next time.
"""
REFUSED_BY_MYSQL: Final = frozenset((1292, 1364, 1366, 1411, 1416, 1526, 1644, 1690, 3140, 3819, 4025))
"""Of these numbers some have no such class, and drivers take all for failures of operation: wrong values of moments,
numbers and places, columns without a default, rows of no partition, what a trigger refuses (SIGNAL), text that is no
JSON, checks (of MySQL, of MariaDB).
"""


def fitting(row: Mapping[str, Any], table: Table, dialect: str) -> Row:
    """The row as its columns take it; ValueError where one is not there, or would hold something else."""
    unknown = [name for name in row if name not in table.c]
    if unknown:
        raise ValueError(f"table {table.name} has no column {', '.join(unknown)}")
    return {name: _fitting(name, content, table.c[name].type, dialect) for name, content in row.items()}


def without_json_nulls(table: Table) -> Table:
    """None is NULL in columns of JSON as well, and not JSON's own null."""
    for column in table.c:
        if isinstance(column.type, JSON):
            column.type.none_as_null = True
    return table


def may_pass(error: DBAPIError) -> bool:
    """Whether the same may succeed later: the database is away, busy or a stand-by."""
    state, number = getattr(error.orig, "sqlstate", None) or "", next(iter(getattr(error.orig, "args", ())), None)
    if error.connection_invalidated or state == READ_ONLY:
        return True
    is_refused = state.startswith(REFUSING_STATES) or number in REFUSED_BY_MYSQL
    return isinstance(error, OperationalError) and not is_refused


def _fitting(name: str, content: Any, kind: TypeEngine[Any], dialect: str) -> Any:
    match content:
        case dict() | list():
            return _nested(content, kind)
        case float() | Decimal() | str() if isinstance(kind, Integer) and dialect != KEEPS_FRACTIONS:
            if _is_fraction(content):
                raise ValueError(f"column {name} holds whole numbers, and {content} is none")
            return content
        case str() | datetime() if isinstance(kind, DateTime):
            return _moment(content, has_zone=kind.timezone)
        case str() | date() if isinstance(kind, Date):
            return _day(name, content)
        case str() | time() if isinstance(kind, Time):
            return _clock(name, content, has_zone=kind.timezone)
        case _:
            return content


def _is_fraction(content: float | Decimal | str) -> bool:
    """Text that says no number is left to the database."""
    try:
        number = Decimal(content)
    except InvalidOperation:
        return False
    return number.is_nan() or number != number.to_integral_value()


def _nested(content: Any, kind: TypeEngine[Any]) -> Any:
    """As JSON where the column is for something else; ARRAY is PostgreSQL's."""
    if isinstance(kind, ARRAY) and isinstance(content, list):
        return content
    text = json.dumps(content, default=str)
    return json.loads(text) if isinstance(kind, JSON) else text


def _moment(content: Any, *, has_zone: bool) -> Any:
    """In UTC, for a column without a zone. Text that says no moment is left to the database."""
    moment = _read(content, datetime) if isinstance(content, str) else content
    if has_zone or not isinstance(moment, datetime) or moment.tzinfo is None:
        return moment
    return moment.astimezone(UTC).replace(tzinfo=None)


def _day(name: str, content: str | date) -> Any:
    moment = _read(content, datetime) if isinstance(content, str) else content
    if not isinstance(moment, datetime):
        return moment
    if moment.timetz() != time():
        raise ValueError(f"column {name} holds days, and {content} is a moment")
    return moment.date()


def _clock(name: str, content: str | time, *, has_zone: bool) -> Any:
    """Which moment it is in UTC, depends on a day that is not said."""
    read = _read(content, time) if isinstance(content, str) else content
    is_moment = isinstance(read, str) and isinstance(_read(read, datetime), datetime)
    if is_moment or (isinstance(read, time) and read.tzinfo is not None and not has_zone):
        raise ValueError(f"column {name} holds times of a day without a zone, and {content} says more")
    return read


def _read(text: str, kind: type[date | datetime | time]) -> Any:
    try:
        return kind.fromisoformat(text)
    except ValueError:
        return text
