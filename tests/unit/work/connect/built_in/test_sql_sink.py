"""How a row is put in the place of the one of its key, by dialect."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text, create_engine
from sqlalchemy.dialects import mysql, registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from penstock.work.connect.api import SinkContext, SinkRecord
from penstock.work.connect.built_in.sql_sink import SqlSinkTask, _upsert

TABLE = Table("t", MetaData(), Column("id", Integer, primary_key=True), Column("n", Integer), Column("a", Text))


class OtherDialect(SQLiteDialect_pysqlite):
    """SQLite under a name of which the sink knows nothing."""

    name = "other"
    supports_statement_cache = True


registry.register("other", __name__, "OtherDialect")


def rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    engine = create_engine(url)
    with engine.begin() as connection:
        result = connection.exec_driver_sql(statement)
        found = [tuple(one) for one in result] if result.returns_rows else []
    engine.dispose()
    return found


@pytest.mark.parametrize("dialect", ["sqlite", "other"])
@pytest.mark.parametrize("tolerance", ["none", "all"])
def test_a_row_that_is_its_key_alone_may_come_again(tmp_path: Path, dialect: str, tolerance: str) -> None:
    url = f"{dialect}:///{tmp_path / 'db'}"
    rows(url, "create table t (id integer, n integer, a text, primary key (id, n))")
    context, task = SinkContext(tolerates=tolerance == "all"), SqlSinkTask()
    keys = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id,n"}
    task.start({"connection.url": url, **keys}, context)
    for _ in range(2):
        task.put([SinkRecord("t", 0, None, {"id": 1, "n": 2}), SinkRecord("t", 0, None, {"id": 1, "n": 3})])
    task.put([SinkRecord("t", 0, None, {"id": 1, "n": 3, "a": "x"})])
    task.put([SinkRecord("t", 0, None, {"id": 1, "n": 3})])
    task.put([SinkRecord("t", 0, None, {"id": 1, "n": 4, "a": "new"})])
    task.stop()
    assert context.reported == []
    assert rows(url, "select id, n, a from t order by n") == [(1, 2, None), (1, 3, "x"), (1, 4, "new")]


@pytest.mark.parametrize("dialect", ["mysql", "mariadb"])
@pytest.mark.parametrize(
    ("others", "update"), [({}, "id = t.id"), ({"a": "x"}, "a = %s")], ids=["key alone", "with others"]
)
def test_mysql_changes_nothing_where_there_is_nothing_but_the_key(
    dialect: str, others: dict[str, Any], update: str
) -> None:
    made = _upsert(dialect, TABLE, {"id": 1, "n": 2, **others}, others, ["id", "n"])
    assert made is not None
    assert str(made.compile(dialect=mysql.dialect())).endswith(f" ON DUPLICATE KEY UPDATE {update}")  # type: ignore[attr-defined]
