import pytest

from penstock.protocol.address import Address
from penstock.replicated.addresses import ServerAddress, parse_addresses, parse_server, parse_servers

THREE = "localhost:16010:1,localhost:16020:2,localhost:16030:3"


def test_servers() -> None:
    servers = parse_servers(THREE)
    assert servers == [
        ServerAddress("localhost", port, number) for port, number in ((16010, 1), (16020, 2), (16030, 3))
    ]
    assert ",".join(map(str, servers)) == THREE
    assert servers[0].address == Address("localhost", 16010)


def test_an_ipv6_address_has_brackets() -> None:
    server = parse_server("[::1]:16010:7")
    assert server == ServerAddress("::1", 16010, 7)
    assert str(server) == "[::1]:16010:7"
    assert parse_addresses("[::1]:16010,[::1]:16020:2") == [Address("::1", 16010), Address("::1", 16020)]


def test_a_client_may_be_given_servers_or_addresses() -> None:
    assert parse_addresses("list://localhost:16010,localhost:16020:2, other:9") == [
        Address("localhost", 16010),
        Address("localhost", 16020),
        Address("other", 9),
    ]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("localhost:16010", "write host:port:id"),
        ("[::1]:16010", "write host:port:id"),
        ("localhost", "write host:port:id"),
        ("localhost:16010:x", "'x' is no id"),
        ("localhost:16010:-1", "'-1' is no id"),
        ("localhost:16010:2147483648", "is no id"),
        ("localhost:99999:1", "'99999' is no port"),
        (":16010:1", "is not an address"),
    ],
)
def test_what_is_no_server(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        parse_server(text)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("a:1:1,b:2:1", "an id twice"), ("a:1:1,a:1:2", "an address twice"), (" , ", "no server is given")],
)
def test_what_is_no_list(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        parse_servers(text)
