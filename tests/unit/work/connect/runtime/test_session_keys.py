"""The record that has a key, and when the next one is due."""

import base64
import hashlib
import hmac
import json

import pytest

from penstock.work.connect.runtime.config_state import ConfigState
from penstock.work.connect.runtime.records import encode
from penstock.work.connect.runtime.session_keys import as_document, due_in_ms, new_key, read_key, signature

KAFKAS = b'{"key":"a2Vr","algorithm":"HmacSHA256","creation-timestamp":1700000000000}'
HOUR_MS = 3_600_000


def test_the_record_is_kafkas() -> None:
    key = read_key(json.loads(KAFKAS))
    assert key is not None
    assert encode(as_document(key)) == KAFKAS
    assert signature(key, "HmacSHA512", b"body") == hmac.digest(base64.b64decode("a2Vr"), b"body", hashlib.sha512)
    assert "a2Vr" not in repr(key)


@pytest.mark.parametrize(
    "value",
    [
        b"{}",
        b"[]",
        b'{"key":"","algorithm":"HmacSHA256","creation-timestamp":1}',
        b'{"key":"\\u00a7","algorithm":"HmacSHA256","creation-timestamp":1}',
        b'{"key":"a2V","algorithm":"HmacSHA256","creation-timestamp":1}',
        b'{"key":7,"algorithm":"HmacSHA256","creation-timestamp":1}',
        b'{"key":"a2Vr","algorithm":"HmacSHA256","creation-timestamp":"1"}',
        None,
    ],
)
def test_what_is_none_changes_nothing(value: bytes | None) -> None:
    state = ConfigState()
    state.apply("session-key", KAFKAS)
    before = state.session_keys
    state.apply("session-key", value)
    state.apply("session-keys", KAFKAS)
    assert state.session_keys == before
    assert len(before) == 1


def test_the_last_two_count() -> None:
    state, keys = ConfigState(), [new_key(bytes([number]) * 32, "HmacSHA256", number) for number in range(3)]
    for key in (*keys, keys[2], keys[1]):
        state.apply("session-key", encode(as_document(key)))
    assert state.session_keys == (keys[2], keys[1])


@pytest.mark.parametrize(
    ("age_ms", "algorithm", "due_ms"),
    [
        (0, "HmacSHA256", HOUR_MS),
        (HOUR_MS - 1, "HmacSHA256", 1),
        (HOUR_MS, "HmacSHA256", 0),
        (-9 * HOUR_MS, "HmacSHA256", HOUR_MS),
        (0, "HmacSHA512", 0),
    ],
)
def test_a_key_holds_for_its_time(age_ms: int, algorithm: str, due_ms: int) -> None:
    key = new_key(b"k" * 32, "HmacSHA256", 10 * HOUR_MS)
    assert due_in_ms(key, algorithm, HOUR_MS, 10 * HOUR_MS + age_ms) == due_ms
    assert due_in_ms(None, algorithm, HOUR_MS, 0) == 0
