"""The transcript of how each request is refused as a whole, and things that it names.

A step is the name of an API, whose request has a value of its own in each field; or `item`, an API and a field of its
response, of which one thing is refused that the request names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.golden.shown import said
from tests.golden.test_admin import sample

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.api import ApiKey, api_of
from penstock.protocol.requests.own_apis import OwnApiKey
from penstock.protocol.requests.refusals import _BARE, refusal, refused
from penstock.protocol.schema import Message

ERROR = KafkaError(ErrorCode.NOT_CONTROLLER, "not here")


def handle(line: str) -> Iterable[str]:
    word, _, item = line.partition(" ")
    if word == "item":
        api, field = item.split()
        response = api_of(ApiKey[api]).response_class()
        return [said(refused(response, field, "a name", ERROR))]
    key = getattr(OwnApiKey, word, None) or ApiKey[word]
    return [said(refusal(_numbered(sample(api_of(key).request_class)), ERROR))]


def _numbered(message: Message) -> Message:
    """Its partitions have the number 7."""
    for name, it in type(message).__fields__.items():
        value: Any = getattr(message, name)
        if name in ("partition", "partition_index", "partition_id"):
            setattr(message, name, 7)
        elif not isinstance(it.kind, str):
            for one in value if it.is_array else [value]:
                _numbered(one)
        elif name == "partitions":
            setattr(message, name, [7])
    return message


def test_messages(transcript: Callable[[str, Callable[[str], Iterable[object]]], None]) -> None:
    transcript("messages.txt", handle)


def items() -> Iterable[str]:
    """All that are things with a mere name."""
    for key in ApiKey:
        for field, it in api_of(key).response_class.__fields__.items():
            kind: Any = it.kind
            if it.is_array and not isinstance(kind, str) and any(name in kind.__fields__ for name in _BARE):
                yield f"item {key.name} {field}"


def test_every_api_is_asked() -> None:
    text = (Path(__file__).parent / "messages.txt").read_text().splitlines()
    assert {key.name for key in (*ApiKey, *OwnApiKey)} <= set(text)
    assert set(items()) <= set(text)
