from collections.abc import Callable, Iterator

import pytest

from penstock.replicated.addresses import ServerAddress
from penstock.testing.ports import LOOPBACK, ReservedPort

NewAddress = Callable[[int], ServerAddress]


@pytest.fixture
def new_address() -> Iterator[NewAddress]:
    """Gives the server of this number an address that nobody else takes during the test."""
    ports: list[ReservedPort] = []

    def address(number: int) -> ServerAddress:
        ports.append(ReservedPort())
        ports[-1].make_way()
        return ServerAddress(LOOPBACK, ports[-1].port, number)

    yield address
    for port in ports:
        port.release()
