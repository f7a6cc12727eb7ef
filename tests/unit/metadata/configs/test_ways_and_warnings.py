"""By which listeners a node comes to others, and of what its file is warned: each condition alone."""

from __future__ import annotations

import pytest

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.protection import STANDARD_AUTHORIZER

ALONE = {"node.id": "1", "process.roles": "broker,controller", "listeners": "PLAINTEXT://h:9092"}
ONE_OF_MANY = ALONE | {
    "listeners": "PLAINTEXT://h:9092,CONTROLLER://h:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@h:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
}
AUDIT = {"penstock.authorizer.audit.topic": "audit"}


@pytest.mark.parametrize(
    ("settings", "ways"),
    [
        (ALONE, ()),
        (ALONE | AUDIT, ("PLAINTEXT",)),
        (ONE_OF_MANY, ("PLAINTEXT", "CONTROLLER")),
        (ONE_OF_MANY | AUDIT, ("PLAINTEXT", "CONTROLLER")),
    ],
    ids=range(4),
)
def test_by_which_listeners_it_comes(settings: dict[str, str], ways: tuple[str, ...]) -> None:
    assert BrokerConfig(settings)._ways == ways


WATCH = "penstock.authorizer.mode=watch: nothing is refused, access rules only say what would be"
SUPER = "super.users has no effect without an authorizer"
MODE = {"penstock.authorizer.mode": "watch"}
RULES = {"authorizer.class.name": STANDARD_AUTHORIZER}
USERS = {"super.users": "User:root"}
IGNORED = {"penstock.security.ignored": "true"}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, []),
        (MODE, []),
        (RULES, []),
        (RULES | MODE, [WATCH]),
        (USERS | RULES, []),
        (IGNORED, []),
        (IGNORED | USERS, [SUPER]),
        (IGNORED | USERS | RULES, []),
    ],
    ids=range(8),
)
def test_of_what_it_is_warned(settings: dict[str, str], told: list[str]) -> None:
    warnings = list(BrokerConfig(ALONE | settings).warnings())
    assert [one for one in warnings if one in (WATCH, SUPER)] == told
