"""Rows of a database through topics into another table; what each task does is in `tests/unit`."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.work.connect.built_in.test_sql_rows import TABLE, at, reading, run
from tests.wire.test_connectors import LIMIT_S, Watched, read

from penstock.client.producer import Producer
from penstock.work.connect.runtime.supervisor import RunState

JSON = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}


@pytest.fixture
async def worker(bootstrap: str, tmp_path: Path) -> AsyncIterator[Watched]:
    worker = Watched(bootstrap, tmp_path)
    yield worker
    await worker.stop()


async def test_a_table_goes_through_a_topic_into_another(
    worker: Watched, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "db"
    run(path, TABLE, at((1, 1), (2, 2)))
    config = reading(path, mode="incrementing", topic_prefix=f"{topic}-") | JSON
    await worker.start({"name": "from", "connector.class": "penstock.SqlSource", **config})
    records = await read(bootstrap, f"{topic}-t", 2)
    assert json.loads(records[0].value or b"") == {"id": 1, "name": "n", "at": "2020-01-01T00:00:01"}
    to = {"table.name.format": "copy", "insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}
    url = {"connection.url": f"sqlite:///{path}", "auto.create": "true", "topics": f"{topic}-t"}
    await worker.start({"name": f"{topic}-to", "connector.class": "penstock.SqlSink", **url, **to, **JSON})
    run(path, at((3, 3)))
    await worker.until(f"{topic}-to-0", RunState.RUNNING)
    async with asyncio.timeout(LIMIT_S):
        while len(copied(path)) < 3:
            await asyncio.sleep(0.01)
    assert copied(path) == [(1, "n"), (2, "n"), (3, "n")]
    async with Producer(bootstrap) as producer:
        await producer.send_and_wait(f"{topic}-t", b'{"id": 3, "name": "again"}')
    async with asyncio.timeout(LIMIT_S):
        while (3, "again") not in copied(path):
            await asyncio.sleep(0.01)


def copied(path: Path) -> list[tuple[Any, ...]]:
    if not run(path, "select 1 from sqlite_master where name = 'copy'"):
        return []
    return run(path, "select id, name from copy order by id")
