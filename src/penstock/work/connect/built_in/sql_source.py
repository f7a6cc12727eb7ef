"""Rows of tables as records, through SQLAlchemy: each table is a topic, each new row a record.

| `mode` | which rows come | what a row is known by |
| --- | --- | --- |
| `incrementing` | those with a larger number than any before | `incrementing.column.name` |
| `timestamp` | those that were changed later than any before | `timestamp.column.name` |
| `timestamp+incrementing` | the same, of the same moment by number | both |
| `bulk` | all, in each round | nothing |

A round reads what is new in one table after the other, then the task waits for `poll.interval.ms`. With `timestamp`
alone the offset of a row is the moment before its own, for more rows of the same moment may follow: after a restart
those of the last moment come again, and none is missing. A row that is committed later than rows with larger numbers
is not seen.

Rows of the moment that it is now are left for later, for more of that moment may be written. What counts is the time of
the database, for columns without a zone in that of its session; where moments are written some time after they were
taken, or are coarser than the database's, `timestamp.delay.interval.ms` says by how much. A column of days has moments
of a day: its rows of today come when the day is over. In a column that is no time for the database (text, numbers)
nothing is left for later.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import chain, islice
from typing import Any, ClassVar, Final

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Date,
    DateTime,
    Engine,
    MetaData,
    Select,
    String,
    Table,
    and_,
    create_engine,
    func,
    inspect,
    or_,
    select,
    type_coerce,
)
from sqlalchemy.exc import DBAPIError

from penstock.protocol.value import Value
from penstock.work.connect.api import (
    Changes,
    Position,
    RetriableError,
    SourceConnector,
    SourceContext,
    SourceRecord,
    SourceTask,
    Support,
)
from penstock.work.connect.built_in.sql_values import may_pass
from penstock.work.connect.config import ConfigError, ConfigKey, parse

INCREMENTING: Final = "incrementing"
TIMESTAMP: Final = "timestamp"
BOTH: Final = "timestamp+incrementing"
BULK: Final = "bulk"
AS_STORED: Final = "timestamp as stored"
"""SQLite has moments as texts in any form, and compares them as such: so does this, with the text of the last one."""
LOCAL: Final = ("postgresql", "oracle")
"""Whose CURRENT_TIMESTAMP has a zone, and is not to be compared with columns that have none."""
KEYS: Final = (
    ConfigKey(
        "connection.url", "password", required=True, documentation="where the database is, as SQLAlchemy says it"
    ),
    ConfigKey("mode", required=True, documentation="which rows are new", choices=(INCREMENTING, TIMESTAMP, BOTH, BULK)),
    ConfigKey("incrementing.column.name", documentation="The column that grows with each new row."),
    ConfigKey("timestamp.column.name", documentation="The column that says when a row was changed."),
    ConfigKey("table.whitelist", "list", (), "The tables; all, if none is named."),
    ConfigKey("topic.prefix", default="", documentation="What stands before a table's name in its topic's."),
    ConfigKey("poll.interval.ms", "int", 5_000, "How long the task waits between two rounds.", least=0),
    ConfigKey(
        "timestamp.delay.interval.ms", "long", 0, "How long ago a moment must be before its rows are read.", least=0
    ),
    ConfigKey("batch.max.rows", "int", 1_000, "The most rows that are taken at once.", least=1),
)
NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    INCREMENTING: ("incrementing.column.name",),
    TIMESTAMP: ("timestamp.column.name",),
    BOTH: ("incrementing.column.name", "timestamp.column.name"),
    BULK: (),
}
_KINDS_OF_OFFSETS: Final[Mapping[str, Mapping[str, tuple[type, ...]]]] = {
    INCREMENTING: {INCREMENTING: (int,)},
    TIMESTAMP: {TIMESTAMP: (str, int, float)},
    BOTH: {INCREMENTING: (int,), TIMESTAMP: (str, int, float)},
    BULK: {},
}


class _Read(Value):
    """A row that was read. The next query begins behind `here`, where all rows of this moment have been returned."""

    table: str
    here: Position
    record: SourceRecord


class SqlSourceTask(SourceTask):
    def start(self, config: Mapping[str, str], context: SourceContext) -> None:
        self._settings = parse(KEYS, config)
        self._engine = create_engine(self._settings["connection.url"])
        self._tables = self._settings["table.whitelist"]
        self._returned: dict[str, Position] = {name: context.offset({"table": name}) or {} for name in self._tables}
        """The offsets of the last rows that `poll` has returned, by tables."""
        self._here = dict(self._returned)
        self._round: Iterator[_Read] = iter(())
        self._next_round_s = -math.inf
        self._now_s = context.now_s

    def poll(self) -> Sequence[SourceRecord]:
        """A database that cannot be reached is asked again for what was not returned."""
        try:
            read = self._next_rows()
            if not read and self._now_s() >= self._next_round_s:
                self._next_round_s = self._now_s() + self._settings["poll.interval.ms"] / 1000
                self._round = chain.from_iterable(map(self._rows, self._tables))
                read = self._next_rows()
        except DBAPIError as error:
            self._round, self._here = iter(()), dict(self._returned)
            if may_pass(error):
                raise RetriableError(str(error)) from error
            raise
        for one in read:
            self._here[one.table], self._returned[one.table] = one.here, one.record.source_offset
        return [one.record for one in read]

    def stop(self) -> None:
        self._round = iter(())
        self._engine.dispose()

    def _next_rows(self) -> list[_Read]:
        return list(islice(self._round, self._settings["batch.max.rows"]))

    def _rows(self, name: str) -> Iterator[_Read]:
        """Moves nothing on: what is read may never be returned."""
        table = Table(name, MetaData(), autoload_with=self._engine)
        mode, topic = self._settings["mode"], f"{self._settings['topic.prefix']}{name}"
        with self._engine.connect().execution_options(stream_results=True) as connection:
            before = here = self._here[name]
            for row in connection.execute(_newer(table, self._settings, here, connection)).mappings():
                position = _position(row, self._settings)
                if position != here:
                    before, here = here, position
                value = {str(column): plain(content) for column, content in row.items() if column != AS_STORED}
                offset = before if mode == TIMESTAMP else here
                record = SourceRecord(topic, value=value, source_partition={"table": name}, source_offset=offset)
                yield _Read(name, here, record)


class SqlSourceConnector(SourceConnector):
    """The tables are spread over its tasks."""

    config_keys = KEYS
    task_class: ClassVar[type[SourceTask]] = SqlSourceTask

    def exactly_once_support(self, config: Mapping[str, str]) -> Support:
        """Where offsets say which row was the last."""
        is_exact = config.get("mode", "").strip() in (INCREMENTING, BOTH)
        return Support.SUPPORTED if is_exact else Support.UNSUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Changes) -> None:
        """Anything may be forgotten. With `timestamp` an offset may be empty: that of the first moment's rows."""
        kinds = _KINDS_OF_OFFSETS[parse(KEYS, config)["mode"]]
        for partition, offset in offsets:
            if offset is None or (not offset and TIMESTAMP in kinds):
                continue
            fits = offset.keys() == kinds.keys() and all(type(offset[part]) in kinds[part] for part in kinds)
            if not fits or not isinstance(partition.get("table"), str):
                wanted = ", ".join(f"{part}: {kinds[part][0].__name__}" for part in kinds)
                raise ValueError(
                    f"a partition is {{table: text}}, and its offset {{{wanted}}}; not so {partition!r}, {offset!r}"
                )

    def start(self, config: Mapping[str, str]) -> None:
        """Checks that the columns that the mode needs are named."""
        super().start(config)
        settings = parse(KEYS, config)
        missing = [key for key in NEEDED[settings["mode"]] if not settings[key]]
        if missing:
            raise ConfigError({key: [f"{key} is missing: mode={settings['mode']} needs it"] for key in missing})

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        settings = parse(KEYS, self.config)
        tables = settings["table.whitelist"] or _all_tables(create_engine(settings["connection.url"]))
        shares = [tables[number::max_tasks] for number in range(max_tasks)]
        return [{**self.config, "table.whitelist": ",".join(share)} for share in shares if share]


def plain(content: Any) -> Any:
    """Moments as ISO 8601, other kinds as text."""
    if content is None or isinstance(content, bool | int | float | str | bytes):
        return content
    if isinstance(content, date | datetime):
        return content.isoformat()
    if isinstance(content, memoryview):
        return bytes(content)
    return json.dumps(content) if isinstance(content, dict | list) else str(content)


def _all_tables(engine: Engine) -> list[str]:
    try:
        return sorted(inspect(engine).get_table_names())
    finally:
        engine.dispose()


def _newer(table: Table, settings: Mapping[str, Any], last: Position, connection: Connection) -> Select[Any]:
    mode = settings["mode"]
    if mode == BULK:
        return select(table)
    number = table.c[settings["incrementing.column.name"]] if mode != TIMESTAMP else None
    moment = table.c[settings["timestamp.column.name"]] if mode != INCREMENTING else None
    order = [column for column in (moment, number) if column is not None]
    query = select(table).where(*(column.is_not(None) for column in order)).order_by(*order)
    if moment is None:
        return query.where(number > last[INCREMENTING]) if number is not None and last else query
    is_text = isinstance(moment.type, DateTime) and connection.dialect.name == "sqlite"
    if is_text:
        query = query.add_columns(type_coerce(moment, String).label(AS_STORED))
    if isinstance(moment.type, Date | DateTime):
        query = query.where(_has_passed(moment, settings["timestamp.delay.interval.ms"], connection))
    if not last:
        return query
    later, same = _beside_text(moment, last) if is_text else _beside(moment, last)
    return query.where(later if number is None else or_(later, and_(same, number > last[INCREMENTING])))


def _has_passed(moment: Column[Any], delay_ms: int, connection: Connection) -> ColumnElement[bool]:
    """By the database's clock."""
    dialect = connection.dialect.name
    is_local = dialect in LOCAL and not getattr(moment.type, "timezone", False)
    now = connection.scalar(select(func.localtimestamp() if is_local else func.current_timestamp()))
    assert now is not None
    until = now - timedelta(milliseconds=delay_ms)
    is_day = isinstance(moment.type, Date)
    passed: ColumnElement[bool] = moment < (until.date() if is_day else until)
    if dialect == "sqlite" and not is_day:
        in_one_form = func.strftime("%Y-%m-%d %H:%M:%f", type_coerce(moment, String))
        passed = func.coalesce(in_one_form, "") < until.isoformat(" ", "milliseconds")
    return passed


Comparisons = tuple[ColumnElement[bool], ColumnElement[bool]]
"""Whether a row's moment is later than the last one, and whether it is the same."""


def _beside(moment: Column[Any], last: Position) -> Comparisons:
    """SQLite has days as texts, too: one with a time is another text."""
    then = _moment(last)
    if isinstance(moment.type, Date) and isinstance(then, datetime):
        then = then.date()
    return moment > then, moment == then


def _beside_text(moment: Column[Any], last: Position) -> Comparisons:
    """ISO 8601 may also be what earlier versions have stored of a text that stands in another form."""
    as_stored, text = type_coerce(moment, String), str(last[TIMESTAMP])
    then = _moment(last)
    if text[10:11] != "T" or not isinstance(then, datetime):
        return as_stored > text, as_stored == text
    other = f"{then:%Y-%m-%d %H:%M:%S.%f}"
    has_other_form = func.substr(as_stored, 11, 1) != "T"
    return and_(as_stored > other, or_(as_stored > text, has_other_form)), as_stored.in_((text, other))


def _position(row: Mapping[Any, Any], settings: Mapping[str, Any]) -> Position:
    mode, found = settings["mode"], {}
    if mode in (INCREMENTING, BOTH):
        found[INCREMENTING] = int(row[settings["incrementing.column.name"]])  # of NUMERIC it is a Decimal
    if mode in (TIMESTAMP, BOTH):
        found[TIMESTAMP] = row[AS_STORED] if AS_STORED in row else plain(row[settings["timestamp.column.name"]])
    return found


def _moment(position: Position) -> Any:
    text = position[TIMESTAMP]
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return text
