"""The address of a worker may have a password in it, which no page shows."""

import pytest

from penstock.console.errors import ConsoleError
from penstock.console.views.connect import ConnectWorker, without_user


async def test_a_worker_that_is_away_is_named_without_its_password() -> None:
    with pytest.raises(ConsoleError, match=r"no worker at http://127\.0\.0\.1:1 ") as caught:
        await ConnectWorker("http://ada:s3cret@127.0.0.1:1/").connectors()
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("address", ["http://connect:8083", "https://[::1]:8083/a@b", "connect"])
def test_an_address_without_one_stays(address: str) -> None:
    assert without_user(address) == address
