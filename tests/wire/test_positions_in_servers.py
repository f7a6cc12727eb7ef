"""Positions beside results, in databases that are servers (where they are here)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import create_async_engine
from tests.unit.client.consumer.test_stored_positions import ONE, ZERO, member, store
from tests.wire.test_sql_servers import TOGETHER, run
from tests.wire.test_sql_servers import url as url_of_a_server

from penstock.client.consumer.stored_positions import AsyncStoredPositions, StoredPositions
from penstock.client.errors import ConsumerMisuseError, PositionsTakenError

pytestmark = pytest.mark.soak
url = url_of_a_server


@pytest.fixture(autouse=True)
def _without_positions(url: str) -> None:
    run(url, "drop table if exists penstock_positions")


def by_psycopg(url: str) -> StoredPositions:
    psycopg: Any = import_module("psycopg")
    connect = partial(psycopg.connect, make_url(url).set(drivername="postgresql").render_as_string(hide_password=False))
    return StoredPositions("totals", connect, paramstyle=psycopg.paramstyle)


def by_psycopg_async(url: str) -> AsyncStoredPositions:
    psycopg: Any = import_module("psycopg")
    where = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return AsyncStoredPositions("totals", partial(psycopg.AsyncConnection.connect, where), paramstyle="format")


def by_sqlalchemy(url: str) -> StoredPositions:
    return StoredPositions("totals", create_engine(url).connect, paramstyle="format")


def by_sqlalchemy_async(url: str) -> AsyncStoredPositions:
    return AsyncStoredPositions("totals", create_async_engine(url).connect, paramstyle="format")


def by_pymysql(url: str) -> StoredPositions:
    pymysql: Any = import_module("pymysql")
    at = make_url(url)
    connect = partial(pymysql.connect, host=at.host, port=at.port or 0, user=at.username, database=at.database)
    return StoredPositions("totals", connect, paramstyle=pymysql.paramstyle)


WAYS: dict[str, tuple[Callable[[str], StoredPositions | AsyncStoredPositions], ...]] = {
    "postgresql": (by_psycopg, by_psycopg_async, by_sqlalchemy, by_sqlalchemy_async),
    "mysql": (by_pymysql, by_sqlalchemy),
}


async def test_positions_beside_their_results(url: str) -> None:
    for way in WAYS[make_url(url).get_backend_name()]:
        run(url, "drop table if exists penstock_positions")
        first = way(url)
        reader = await member(first, ZERO, ONE)
        await store(first, await reader.poll(3))
        await store(first, await reader.poll(2))
        await store(first, await reader.poll(9), commits=False)
        second = way(url)
        assert (await member(second, ONE)).at == {ONE: 10}, way
        await first.reload()
        records = await reader.poll()
        quick = await member(second, ZERO)
        with pytest.raises(PositionsTakenError, match="belongs to another member of totals"):
            await store(first, records)
        await store(second, await quick.poll())


async def test_who_has_another_name_has_rows_of_its_own_or_is_told(url: str) -> None:
    """MySQL's own order of texts takes both names for one; so may a table that somebody has made."""
    (way, *_) = WAYS[make_url(url).get_backend_name()]
    reader = await member(way(url), ZERO)
    reader.at[ZERO] = 20
    other = way(url)
    other._rows.consumer = "TOTALS"
    if "mysql" not in url:
        assert (await member(other, ZERO)).at == {ZERO: 5}
        return
    with pytest.raises(ConsumerMisuseError, match="the database finds the row of 'totals' and 't'"):
        await member(other, ZERO)
    run(url, "alter table penstock_positions convert to character set utf8mb4 collate utf8mb4_bin")
    assert (await member(other, ZERO)).at == {ZERO: 5}


async def test_members_that_begin_at_once_make_one_table(url: str) -> None:
    """A database may refuse `CREATE TABLE IF NOT EXISTS` to one of two who say it at the same moment."""
    (way, *_) = WAYS[make_url(url).get_backend_name()]
    for _ in range(5):
        run(url, "drop table if exists penstock_positions")
        await asyncio.gather(*(member(way(url)) for _ in range(TOGETHER)))
