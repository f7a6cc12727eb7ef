"""Where nodes listen, from what people write."""

import pytest

from penstock.testing.secured.places import CLIENTS, CONTROLLER, NODES, parse_places


def test_hosts_have_a_port_for_clients_and_two_above_it() -> None:
    first, second = parse_places("a, b/10.0.0.2/b.example:9192")
    assert (first.node_id, first.names, first.ports) == (1, ("a",), {CLIENTS: 9092, NODES: 14092, CONTROLLER: 19092})
    assert (second.node_id, second.names) == (2, ("b", "10.0.0.2", "b.example"))
    assert second.address(NODES) == "b:14192"


def test_a_host_that_comes_again_gets_the_next_port() -> None:
    places = parse_places("localhost,127.0.0.1,localhost:9200,localhost,a")
    assert [one.ports[CLIENTS] for one in places] == [9092, 9093, 9200, 9201, 9092]


def test_what_is_this_machine_alone_listens_there_alone() -> None:
    assert [one.binding(CLIENTS) for one in parse_places("[::1],broker.example")] == [
        "CLIENTS://[::1]:9092",
        "CLIENTS://:9092",
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no node is given"),
        ("a:x", "'x' is no port"),
        ("a:0", "'0' is no port"),
        ("a:55536", "a node's port is at most 55535"),
        ("a/b c", "'b c' is no name of a host"),
        ("a..b", "no name of a host"),
        ("a:9092,a:9092", "the nodes 1 and 2 would both listen on a:9092"),
        ("localhost:9092,127.0.0.1:14092", "would both listen on localhost:14092"),
    ],
)
def test_what_cannot_be_is_told(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_places(text)
