"""A reader that takes nothing is left, one that is slow is not."""

import asyncio

import pytest

from penstock.console.serving.connections import Connection


class Transport(asyncio.WriteTransport):
    aborted = False

    def abort(self) -> None:
        self.aborted = True


@pytest.mark.parametrize("takes", [True, False])
async def test_who_takes_nothing_for_too_long_is_left(takes: bool) -> None:
    connection, transport = Connection(asyncio.Protocol(), 0.0), Transport()
    connection.connection_made(transport)
    connection.pause_writing()
    if takes:
        connection.resume_writing()
    for _ in range(3):
        await asyncio.sleep(0)
    assert transport.aborted is not takes


async def test_one_that_has_gone_is_not_waited_for() -> None:
    connection, transport = Connection(asyncio.Protocol(), 0.0), Transport()
    connection.connection_made(transport)
    connection.pause_writing()
    connection.connection_lost(None)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not transport.aborted
