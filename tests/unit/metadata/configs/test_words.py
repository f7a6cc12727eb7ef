"""What is written as one word with colons in it: each form of nonsense is refused, and what is left is read whole."""

from collections.abc import Callable
from uuid import UUID

import pytest

from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.listeners import Listener, parse_listeners, parse_protocol_map
from penstock.metadata.configs.pairs import parse_address_limits, parse_pinned_leaders
from penstock.metadata.configs.voters import (
    InitialController,
    Voter,
    parse_initial_controllers,
    parse_servers,
    parse_voters,
)
from penstock.protocol.uuids import uuid_to_text

DIRECTORY = UUID(int=7)
D = uuid_to_text(DIRECTORY)
PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "IN": "SSL"}


def voters(text: str) -> object:
    return parse_voters(tuple(text.split(",")))


def servers(text: str) -> object:
    return parse_servers("some.servers", tuple(text.split(",")))


def listeners(text: str) -> object:
    return parse_listeners("listeners", tuple(text.split(",")), PROTOCOLS)


def protocols(text: str) -> object:
    return parse_protocol_map("some.map", tuple(text.split(",")))


@pytest.mark.parametrize(
    ("parse", "text", "read"),
    [
        (voters, "0@a:0,1@[::1]:65535", {0: Voter(0, "a", 0), 1: Voter(1, "::1", 65535)}),
        (
            parse_initial_controllers,
            f"0@a:1:{D}, 2@b:3:{D}",
            {0: InitialController(0, "a", 1, DIRECTORY), 2: InitialController(2, "b", 3, DIRECTORY)},
        ),
        (servers, "a:1,[::1]:2", (("a", 1), ("::1", 2))),
        (
            listeners,
            "plaintext://:0,IN://h:0",
            (Listener("PLAINTEXT", "", 0, "PLAINTEXT"), Listener("IN", "h", 0, "SSL")),
        ),
        (protocols, "in : ssl,out:sasl_ssl", {"IN": "SSL", "OUT": "SASL_SSL"}),
        (parse_address_limits, "127.0.0.1:0, [::1]:7", {"127.0.0.1": 0, "::1": 7}),
        (parse_pinned_leaders, "t:0:0, t:1:2,", {("t", 0): 0, ("t", 1): 2}),
        (parse_pinned_leaders, "", {}),
    ],
)
def test_what_is_read(parse: Callable[[str], object], text: str, read: object) -> None:
    assert parse(text) == read


REFUSED: dict[Callable[[str], object], list[str]] = {
    voters: ["", "a:1", "@a:1", "x@a:1", "-1@a:1", "1@a", "1@:1", "1@a:x", "1@a:65536", "1@a:1,1@b:1"],
    parse_initial_controllers: [
        *("", ",", f"x@a:1:{D}", f"@a:1:{D}", "1@a:1", f"1@a:{D}", f"1@:1:{D}", "1@a:1:x", f"1@a:1:{D},1@b:1:{D}")
    ],
    servers: ["", "a", ":1", "a:x", "a:65536", "a:1,b"],
    listeners: [
        *("", "a:1", "://a:1", " ://a:1", "IN://a", "IN://a:x", "OUT://a:1", "IN://a:1,in://a:2"),
        "IN://a:1,PLAINTEXT://a:1",
    ],
    protocols: ["", "in", ":ssl", "in:", "in:tls"],
    parse_address_limits: ["a", "a:", ":1", "a:x", "a:-1", "a:1,b"],
    parse_pinned_leaders: ["t", "t:1", "t:1:2:3", ":1:2", "t:x:2", "t:1:x", "t:1:-2", "t:1:2,t:1:3", "t:0:1,t:0:0"],
}


@pytest.mark.parametrize(("parse", "text"), [(parse, text) for parse, texts in REFUSED.items() for text in texts])
def test_what_is_refused(parse: Callable[[str], object], text: str) -> None:
    """In words, and not in Python's."""
    says = "is not id@host:port:directory|is named twice|has no id of a directory|names no controller"
    is_format = parse is parse_initial_controllers
    with pytest.raises(ValueError if is_format else ConfigError, match=says if is_format else "is not allowed"):
        parse(text)
