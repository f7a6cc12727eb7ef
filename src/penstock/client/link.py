"""A connection to a node: opened when it is needed, given up when it leads to the wrong one.

A node may hang with its listener open, stopped by a signal or starved: it accepts, and answers nothing. So tasks that
wait for a connection to be opened are released as well when it is given up.
"""

import asyncio
from collections.abc import Awaitable, Callable

from penstock.client.connection import Connection
from penstock.client.errors import ConnectionFailedError
from penstock.protocol.address import Address


class Link:
    """Tasks that need the connection while it is being opened share that; cancelling one takes it from no other."""

    __slots__ = ("_connect", "_connection", "_opening", "_place", "_why")

    def __init__(self, connect: Callable[..., Awaitable[Connection]]) -> None:
        """`connect` is called with the place that `open` gets."""
        self._connect = connect
        self._connection: Connection | None = None
        self._opening: asyncio.Task[Connection] | None = None
        self._place: tuple[Address, ...] = ()
        self._why = ""

    @property
    def connection(self) -> Connection | None:
        connection = self._connection
        return None if connection is None or connection.closed else connection

    @property
    def is_idle(self) -> bool:
        """There is no connection, nor will there be one."""
        return self._opening is None and self.connection is None

    def open(self, *place: Address) -> None:
        """Unless there is a connection to that place, or will be."""
        if place == self._place and (self._opening is not None or self.connection is not None):
            return
        self.give_up("another place is to be reached")
        self._place = place
        self._opening = asyncio.get_running_loop().create_task(self._attempt(), name="open a connection")
        self._opening.add_done_callback(self._opened)

    async def opened(self, *place: Address) -> Connection:
        """At once if it is open. Raises what `connect` raises, and ClientError."""
        self.open(*place)
        opening = self._opening
        if opening is None:
            assert self._connection is not None
            return self._connection
        await asyncio.wait([opening])
        try:
            if opening.cancelled():
                raise ConnectionFailedError(f"{' '.join(map(str, place))}: {self._why}".removeprefix(": "))
            return opening.result()
        finally:
            del opening  # its error has this frame

    async def _attempt(self) -> Connection:
        return await self._connect(*self._place)

    def _opened(self, opening: asyncio.Task[Connection]) -> None:
        is_wanted = opening is self._opening
        if is_wanted:
            self._opening = None
        if opening.cancelled() or opening.exception() is not None:
            return
        if is_wanted:
            self._connection = opening.result()
        else:
            opening.result().abort(self._why)

    def give_up(self, why: str) -> None:
        """Close the connection: tasks that wait for it, or for an answer over it, get the reason."""
        self._why = why
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort(why)

    async def close(self) -> None:
        opening, connection = self._opening, self._connection
        self.give_up("the connection was closed")
        if opening is not None:
            await asyncio.wait([opening])
        if connection is not None:
            await connection.close()
