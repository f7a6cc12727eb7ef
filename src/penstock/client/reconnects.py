"""How soon an address is tried again (reconnect.backoff.ms): a node that is away is not knocked at all the time.

Until then an attempt fails at once, with what the last one failed with: its caller looks for another node meanwhile.
"""

import asyncio
from typing import Final

from penstock.client.connection import Connection, KnownNode, connect
from penstock.client.errors import ConnectionFailedError, WrongNodeError
from penstock.client.settings import ClientSettings
from penstock.protocol.address import Address
from penstock.protocol.value import Value

MAX_REMEMBERED: Final = 1_000


class _Failed(Value):
    """`times` in a row. The error that is raised again is a fresh one: it would gather tracebacks."""

    times: int
    again_at_s: float
    kind: type[ConnectionFailedError]
    args: tuple[object, ...]

    def copy_of_error(self) -> ConnectionFailedError:
        return self.kind(*self.args)


class Reconnects:
    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._failed: dict[Address, _Failed] = {}

    async def connect(self, address: Address, node: KnownNode | None = None) -> Connection:
        """Raises ConnectionFailedError. Where another node than `node` answers, the address can be reached."""
        began_s = asyncio.get_running_loop().time()
        last = self._failed.get(address)
        if last is not None and began_s < last.again_at_s:
            raise last.copy_of_error()
        try:
            connection = await connect(address, self._settings, node)
        except WrongNodeError:
            raise
        except ConnectionFailedError as error:
            times = 0 if last is None else last.times
            again_at_s = began_s + self._settings.reconnect_pause_ms(times) / 1000
            self._failed.pop(address, None)
            self._failed[address] = _Failed(times + 1, again_at_s, type(error), error.args)
            if len(self._failed) > MAX_REMEMBERED:
                del self._failed[next(iter(self._failed))]
            raise
        self._failed.pop(address, None)
        return connection
