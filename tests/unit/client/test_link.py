import asyncio
from functools import partial

import pytest
from tests.unit.client.fake_broker import fake_broker

from penstock.client.connection import connect
from penstock.client.errors import ClusterUnreachableError, ConnectionFailedError
from penstock.client.link import Link
from penstock.client.settings import ClientSettings
from penstock.protocol.address import Address
from penstock.protocol.requests.api import ApiKey


class Hanging:
    """A node that accepts connections and answers nothing."""

    def __init__(self) -> None:
        self.accepted = asyncio.Event()
        self.gone = asyncio.Event()
        self.address = Address("127.0.0.1", 0)

    async def __aenter__(self) -> "Hanging":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = Address("127.0.0.1", self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted.set()
        try:
            while await reader.read(1000):
                pass
        except ConnectionError:
            pass
        self.gone.set()
        writer.close()


async def test_who_waits_for_a_node_that_hangs_is_let_go_when_it_is_given_up() -> None:
    link = Link(partial(connect, settings=ClientSettings()))
    async with Hanging() as hanging, asyncio.timeout(20), fake_broker(lambda header, request: None) as other:
        waiting = [asyncio.ensure_future(link.opened(hanging.address)) for _ in range(3)]
        await hanging.accepted.wait()
        link.give_up("another node is the controller now")
        for result in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(result, ConnectionFailedError)
            assert "another node is the controller now" in str(result)
        await hanging.gone.wait()
        assert (await link.opened(other.address)).address == other.address
        await link.close()


async def test_a_request_to_another_node_does_not_wait_for_the_one_that_hangs() -> None:
    link = Link(partial(connect, settings=ClientSettings()))
    async with Hanging() as hanging, asyncio.timeout(20), fake_broker(lambda header, request: None) as other:
        waiting = asyncio.ensure_future(link.opened(hanging.address))
        await hanging.accepted.wait()
        assert not (await link.opened(other.address)).closed
        with pytest.raises(ConnectionFailedError):
            await waiting
        await link.close()


async def test_those_who_wait_share_a_connection_and_one_who_is_cancelled_takes_it_from_nobody() -> None:
    link = Link(partial(connect, settings=ClientSettings()))
    async with fake_broker(lambda header, request: None) as broker, asyncio.timeout(20):
        first, second, third = (asyncio.ensure_future(link.opened(broker.address)) for _ in range(3))
        await asyncio.sleep(0)
        first.cancel()
        assert await second is await third is await link.opened(broker.address)
        assert sum(header.api_key == ApiKey.API_VERSIONS for header, _ in broker.requests) == 1
        await link.close()
        assert second.result().closed


async def test_a_node_that_is_down_fails_and_is_tried_again() -> None:
    unexpected: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unexpected.append(context))
    link = Link(partial(connect, settings=ClientSettings()))
    async with fake_broker(lambda header, request: None) as broker:
        address = broker.address
    for _ in range(2):
        with pytest.raises(ClusterUnreachableError):
            await link.opened(address)
    await link.close()
    assert not unexpected


async def test_a_close_ends_what_is_being_opened() -> None:
    unexpected: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unexpected.append(context))
    link = Link(partial(connect, settings=ClientSettings()))
    async with Hanging() as hanging, asyncio.timeout(20):
        waiting = asyncio.ensure_future(link.opened(hanging.address))
        await hanging.accepted.wait()
        await link.close()
        with pytest.raises(ConnectionFailedError, match="the connection was closed"):
            await waiting
        await hanging.gone.wait()
    assert not unexpected
