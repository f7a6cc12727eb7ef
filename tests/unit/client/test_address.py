"""Addresses as people write them."""

import pytest

from penstock.client.address import Address, parse_address, parse_bootstrap_servers


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("a:1", "a", 1),
        ("a", "a", 9092),
        ("[::1]:9", "::1", 9),
        ("[::1]", "::1", 9092),
        (" 127.0.0.1:80 ", "127.0.0.1", 80),
    ],
)
def test_address(text: str, host: str, port: int) -> None:
    assert parse_address(text) == Address(host, port)


@pytest.mark.parametrize("text", ["", ":9092", "a:b", "a:0", "a:65536", "a:-1", "a:"])
def test_not_an_address(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        parse_address(text)


def test_bootstrap_servers() -> None:
    assert parse_bootstrap_servers("a:1, b:2,") == [Address("a", 1), Address("b", 2)]
    with pytest.raises(ValueError, match="no bootstrap server"):
        parse_bootstrap_servers(" ,")


def test_an_address_is_shown_as_it_is_written() -> None:
    assert [str(Address("a", 1)), str(Address("::1", 2))] == ["a:1", "[::1]:2"]
