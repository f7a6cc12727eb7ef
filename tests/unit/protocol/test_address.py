"""Addresses as people write them."""

import pytest

from penstock.protocol.address import Address, listening_address, parse_address, parse_bootstrap_servers


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


def test_the_port_may_have_no_default() -> None:
    assert parse_address("a:1", default_port=None) == Address("a", 1)
    with pytest.raises(ValueError, match="'a' is not an address: write host:port"):
        parse_address("a", default_port=None)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":0", Address("", 0)),
        ("[::]:65535", Address("::", 65535)),
        ("a", None),
        ("[::1]", None),
        ("a:", None),
        ("a:65536", None),
        ("a:-1", None),
        ("a:١", None),
    ],
)
def test_an_address_to_listen_at(text: str, address: Address | None) -> None:
    assert listening_address(text) == address


def test_bootstrap_servers() -> None:
    assert parse_bootstrap_servers("a:1, b:2,") == (Address("a", 1), Address("b", 2))
    with pytest.raises(ValueError, match="no bootstrap server"):
        parse_bootstrap_servers(" ,")


def test_an_address_is_shown_as_it_is_written() -> None:
    assert [str(Address("a", 1)), str(Address("::1", 2))] == ["a:1", "[::1]:2"]
