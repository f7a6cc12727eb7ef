"""What is listened on beside the listeners of the file, and limits and places that are named in one text."""

from collections.abc import Mapping

import pytest

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.broker_rules import LISTENERS_KEY, MAP_KEY, added_listeners, check_cordoned
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.listeners import Listener
from penstock.metadata.configs.pairs import parse_address_limits, parse_pinned_leaders

FILE = "A://h:1,B://h:2,CONTROLLER://h:3"
MAP = "A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT,S:SASL_SSL,T:SSL"
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": FILE,
    MAP_KEY: f"{MAP},CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "h:3",
    "inter.broker.listener.name": "A",
    "log.dirs": "/data",
}


def added(
    listeners: str | None, protocols: str | None = MAP, file: Mapping[str, str] = SETTINGS
) -> tuple[Listener, ...]:
    return added_listeners(BrokerConfig(file), {LISTENERS_KEY: listeners, MAP_KEY: protocols}.get)


def test_what_is_not_in_the_file_is_added() -> None:
    assert added(FILE) == ()
    assert added(f"{FILE},C://:4") == (Listener("C", "", 4),)
    assert added(f"{FILE},T://:4") == (Listener("T", "", 4, "SSL"),)
    assert added(f"{FILE},S://:4") == (Listener("S", "", 4, "SASL_SSL"),)
    assert added("CONTROLLER://h:3, C://i:4 ,B://h:2,A://h:1") == (Listener("C", "i", 4),)


@pytest.mark.parametrize(
    ("listeners", "protocols", "key", "says"),
    [
        ("A://h:1,B://h:2", MAP, LISTENERS_KEY, "CONTROLLER://h:3 among them: it goes only with a restart"),
        ("A://h:1,CONTROLLER://h:3", MAP, LISTENERS_KEY, "B://h:2 among them"),
        ("A://h:1,B://h:5,CONTROLLER://h:3", MAP, LISTENERS_KEY, "B://h:2 with PLAINTEXT: it changes only with"),
        (FILE, "A:SSL,B:PLAINTEXT", LISTENERS_KEY, "A://h:1 with SSL"),
        (f"{FILE},C://:4", "A:PLAINTEXT,B:PLAINTEXT", LISTENERS_KEY, "map knows"),
        (FILE, "A:PLAINTEXT,B", MAP_KEY, "name:protocol pairs"),
        (FILE, None, LISTENERS_KEY, "map knows; it knows CONTROLLER"),
        (None, MAP, LISTENERS_KEY, "name://host:port"),
        (f"{FILE},://h:4", MAP, LISTENERS_KEY, "name://host:port"),
    ],
)
def test_what_is_in_the_file_stays_as_it_is(listeners: str | None, protocols: str | None, key: str, says: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        added(listeners, protocols)
    assert refusal.value.key == key
    assert says in str(refusal.value)


@pytest.mark.parametrize(
    ("directories", "allowed"),
    [
        ((), True),
        (("/a",), True),
        (("/b", "/a"), True),
        (("*",), True),
        (("/c",), False),
        (("/a", "/c"), False),
        (("*", "/a"), False),
        (("*", "*"), False),
    ],
)
def test_only_directories_that_are_there_are_cordoned(directories: tuple[str, ...], allowed: bool) -> None:
    if allowed:
        check_cordoned(directories, ("/a", "/b"))
    else:
        with pytest.raises(ConfigError, match="some of /a, /b, or"):
            check_cordoned(directories, ("/a", "/b"))


def test_limits_of_addresses_and_pinned_leaders() -> None:
    assert parse_address_limits(" a:0, [::1]:7,,b:12 ") == {"a": 0, "::1": 7, "b": 12}
    assert parse_pinned_leaders("t:0:1, u:0:2,t:1:0,") == {("t", 0): 1, ("u", 0): 2, ("t", 1): 0}
    for text in ("a", "a:", ":1", "a:-1", "a:x"):
        with pytest.raises(ConfigError):
            parse_address_limits(text)
    for text in ("t", "t:1", "t:1:2:3", ":1:2", "t:x:1", "t:1:x", "t:1:-1", "t:0:1,t:0:2"):
        with pytest.raises(ConfigError):
            parse_pinned_leaders(text)
