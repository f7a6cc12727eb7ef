"""The text of a message, which may get into a log or a traceback, tells no secret: a rule of kinds and names."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import penstock.metadata
import penstock.protocol.messages
import penstock.protocol.requests
from penstock.metadata.records import ConfigRecord
from penstock.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from penstock.protocol.messages.envelope import EnvelopeRequest
from penstock.protocol.messages.incremental_alter_configs import AlterableConfig
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from penstock.protocol.schema import BYTES, Message

SECRET = "sesame-open"
PLAIN_VALUES = ("Metric", "KeyValue")
"""Messages whose names end so have a value that nobody has configured."""
PLAIN_NAMES = {
    "key": "the name of a quota, a label, or of a group whose coordinator is looked for",
    "token_id": "the name of a delegation token, which is no secret",
    "token_requester_principal_name": "a user",
    "token_requester_principal_type": "a kind of user",
    "configuration_keys": "names of configs",
    "coordinator_keys": "names of groups",
}
"""Fields of texts that sound like secrets and are none."""
SOUNDS_SECRET = re.compile(r"key|token|secret|password|salt|hmac|auth|credential|value|proof|nonce")


def modules(*packages: ModuleType) -> Iterator[ModuleType]:
    for package in packages:
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(found.name)


def messages() -> list[type[Message]]:
    found: dict[type[Message], None] = {}
    for module in modules(penstock.protocol.messages, penstock.protocol.requests, penstock.metadata):
        found |= dict.fromkeys(it for it in vars(module).values() if isinstance(it, type) and issubclass(it, Message))
    return [it for it in found if it.__fields__]


ALL = messages()


def filled(cls: type[Message]) -> Message:
    values: dict[str, Any] = {}
    for name, item in cls.__fields__.items():
        if item.kind in BYTES:
            values[name] = [SECRET.encode()] if item.is_array else SECRET.encode()
        elif name == "value" and item.kind == "string" and not cls.__name__.endswith(PLAIN_VALUES):
            values[name] = SECRET
        elif not isinstance(item.kind, str):
            values[name] = [filled(item.kind)] if item.is_array else filled(item.kind)
    return cls(**values)


def test_there_are_many() -> None:
    assert len(ALL) > 500


@pytest.mark.parametrize("of", ["bytes and values", "names"])
def test_no_message_tells_a_secret(of: str) -> None:
    if of == "names":
        texts = {name for cls in ALL for name, item in cls.__fields__.items() if item.kind == "string"}
        assert {name for name in texts if SOUNDS_SECRET.search(name)} - {"value"} == PLAIN_NAMES.keys()
        return
    for cls in ALL:
        shown = repr(filled(cls))
        assert SECRET not in shown, cls
        assert shown.startswith(f"{cls.__name__}(")


def test_what_is_told_instead() -> None:
    credential = ScramCredentialUpsertion(name="ada", mechanism=1, salt=b"1234", salted_password=b"12")
    asked = AlterUserScramCredentialsRequest(upsertions=[credential])
    assert repr(asked) == (
        "AlterUserScramCredentialsRequest(deletions=[], upsertions=[ScramCredentialUpsertion(name='ada', mechanism=1,"
        " iterations=0, salt=<4 bytes>, salted_password=<2 bytes>)])"
    )
    assert repr(SaslAuthenticateRequest(auth_bytes=b"\0ada\0x")) == "SaslAuthenticateRequest(auth_bytes=<6 bytes>)"
    assert "request_principal=None" in repr(EnvelopeRequest(request_principal=None))
    assert "value=[hidden]" in repr(AlterableConfig(name="ssl.key.password", value="x"))
    assert "value=None" in repr(AlterableConfig(name="ssl.key.password", value=None))
    assert "value=[hidden]" in repr(ConfigRecord(resource_type=4, resource_name="", name="a", value="x"))
