"""A string of a request has at most 32,767 bytes, in flexible versions as well: what is done with it stays short."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import DecodeError
from penstock.protocol.messages.find_coordinator import FindCoordinatorResponse
from penstock.protocol.requests.api import KEYS, api_of
from penstock.protocol.requests.fetch import FetchFrame
from penstock.protocol.requests.produce import ProduceFrame
from penstock.protocol.schema import Message, parse_versions

MOST = 32_767
REQUESTS = [*(api_of(key).request_class for key in KEYS), FetchFrame, ProduceFrame]


def with_text(cls: type[Message], version: int, text: str) -> Iterator[Message]:
    """For each field for a text, also of the structures within, a message that has it there."""
    for name, item in cls.__fields__.items():
        if not item.is_in(version):
            continue
        kind: Any = item.kind
        values = [text] if kind == "string" else [] if isinstance(kind, str) else with_text(kind, version, text)
        for value in values:
            yield cls(**{name: [value] if item.is_array else value})


@pytest.mark.parametrize("request_class", REQUESTS, ids=lambda cls: cls.__name__)
def test_no_string_of_a_request_is_longer(request_class: type[Message]) -> None:
    for version in parse_versions(request_class.__versions__):
        for message in with_text(request_class, version, "n" * MOST):
            assert decode(request_class, version, encode(message, version))[0] == message
        if version in parse_versions(request_class.__flexible__):
            for message in with_text(request_class, version, "é" * (MOST // 2 + 1)):
                with pytest.raises(DecodeError, match="has 32768 bytes, and strings of a request at most 32767"):
                    decode(request_class, version, encode(message, version))


def test_bytes_and_what_nodes_answer_may_be_longer() -> None:
    answer = FindCoordinatorResponse(error_message="n" * (MOST + 1))
    assert decode(FindCoordinatorResponse, 3, encode(answer, 3))[0] == answer
