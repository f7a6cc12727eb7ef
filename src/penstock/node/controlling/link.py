"""The connection of a broker to the node that leads the quorum: opened when it is needed, given up when another leads.

A node may hang with its listener open, stopped by a signal or starved: it accepts, and answers nothing. So who waits
for a connection to be opened is let go as well when the connection is given up.
"""

import asyncio

from penstock.client.connection import Connection, connect
from penstock.client.errors import ConnectionFailedError
from penstock.client.settings import ClientSettings
from penstock.protocol.address import Address

GIVEN_UP = "another node is the controller now"


class ControllerLink:
    """See the module."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._connection: Connection | None = None
        self._opening: asyncio.Task[Connection] | None = None
        self._address: Address | None = None

    async def opened(self, address: Address) -> Connection:
        """The connection to this address. Raises ClientError."""
        connection = self._connection
        if connection is not None and not connection.closed and connection.address == address:
            return connection
        if self._opening is None or self._address != address:
            self.give_up()
            self._address = address
            self._opening = asyncio.get_running_loop().create_task(connect(address, self._settings))
            self._opening.add_done_callback(self._opened)
        opening = self._opening
        await asyncio.wait([opening])
        if opening.cancelled():
            raise ConnectionFailedError(f"{address}: {GIVEN_UP}")
        return opening.result()

    def _opened(self, opening: asyncio.Task[Connection]) -> None:
        is_wanted = opening is self._opening
        if is_wanted:
            self._opening = None
        if opening.cancelled() or opening.exception() is not None:
            return
        if is_wanted:
            self._connection = opening.result()
        else:
            opening.result().abort(GIVEN_UP)

    def give_up(self) -> None:
        """Its other end leads no longer: whoever waits for it is told so."""
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort(GIVEN_UP)

    async def close(self) -> None:
        """Closes it, if it is open."""
        opening, connection = self._opening, self._connection
        self.give_up()
        if opening is not None:
            await asyncio.wait([opening])
        if connection is not None:
            await connection.close()
