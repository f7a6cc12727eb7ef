"""What one worker hands on to another is believed by its signature."""

from http import HTTPStatus

import pytest

from penstock.work.connect.rest.errors import RestError
from penstock.work.connect.rest.signatures import ALGORITHM, SIGNATURE, USER, HandedOn, signed, user_in, verify
from penstock.work.connect.runtime.session_keys import BITS, SessionKey, new_key

KEY = new_key(b"k" * 32, "HmacSHA256", 1_000)
OLDER = new_key(b"o" * 32, "HmacSHA256", 1)
OLDEST = new_key(b"a" * 32, "HmacSHA256", 0)
STRANGERS = new_key(b"s" * 32, "HmacSHA256", 2_000)
ASKED = HandedOn("ada ✓\n", "PUT", "/connectors/c/config?forward=true", b'{"a": 1}')
SHA256 = ("HmacSHA256",)


def status_of(
    asked: HandedOn,
    headers: dict[str, str],
    keys: tuple[SessionKey, ...] = (KEY, OLDER),
    allowed: tuple[str, ...] = SHA256,
) -> int:
    try:
        verify(asked, headers, keys, allowed)
    except RestError as error:
        return error.status
    return HTTPStatus.OK


@pytest.mark.parametrize("algorithm", BITS)
@pytest.mark.parametrize("key", [KEY, OLDER])
def test_a_worker_of_the_group_is_believed(key: SessionKey, algorithm: str) -> None:
    headers = signed(ASKED, [key], algorithm)
    assert user_in(headers) == ASKED.user
    assert all(text.isascii() and text.isprintable() for text in headers.values())
    assert status_of(ASKED, headers, allowed=tuple(BITS)) == HTTPStatus.OK


@pytest.mark.parametrize(
    "changed",
    [
        {"user": "root"},
        {"verb": "DELETE"},
        {"target": "/connectors/d/config?forward=true"},
        {"body": b'{"a": 2}'},
        {"body": b""},
        {"target": '/connectors/c/config?forward=true"]\n', "body": b""},
    ],
)
def test_what_was_changed_on_the_way_is_refused(changed: dict[str, str]) -> None:
    assert status_of(ASKED.replace(**changed), signed(ASKED, [KEY], *SHA256)) == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({SIGNATURE: ""}, HTTPStatus.FORBIDDEN),
        ({SIGNATURE: "§"}, HTTPStatus.FORBIDDEN),
        ({SIGNATURE: signed(ASKED, [STRANGERS], *SHA256)[SIGNATURE]}, HTTPStatus.FORBIDDEN),
        ({ALGORITHM: "HmacSHA512"}, HTTPStatus.BAD_REQUEST),
        ({ALGORITHM: "HmacMD5"}, HTTPStatus.BAD_REQUEST),
        ({ALGORITHM: ""}, HTTPStatus.BAD_REQUEST),
    ],
)
def test_other_signatures_are_refused(more: dict[str, str], status: int) -> None:
    assert status_of(ASKED, signed(ASKED, [KEY], *SHA256) | more) == status


def test_the_algorithm_that_is_named_counts() -> None:
    headers = signed(ASKED, [KEY], "HmacSHA512") | {ALGORITHM: "HmacSHA256"}
    assert status_of(ASKED, headers, allowed=tuple(BITS)) == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize(("signs", "reads"), [((KEY, OLDER), (OLDER, OLDEST)), ((OLDER, OLDEST), (KEY, OLDER))])
def test_a_worker_that_has_read_the_next_key_understands_one_that_has_not(
    signs: tuple[SessionKey, ...], reads: tuple[SessionKey, ...]
) -> None:
    assert status_of(ASKED, signed(ASKED, signs, *SHA256), keys=reads) == HTTPStatus.OK
    assert status_of(ASKED, signed(ASKED, signs, *SHA256), keys=(STRANGERS,)) == HTTPStatus.FORBIDDEN


def test_two_signatures_are_looked_at() -> None:
    right = signed(ASKED, [KEY], *SHA256)
    for before, status in (("AAAA,", HTTPStatus.OK), ("AAAA,AAAA,", HTTPStatus.FORBIDDEN)):
        assert status_of(ASKED, right | {SIGNATURE: before + right[SIGNATURE]}) == status


def test_without_a_key_nobody_is_believed() -> None:
    assert status_of(ASKED, signed(ASKED, [KEY], *SHA256), keys=()) == HTTPStatus.SERVICE_UNAVAILABLE


def test_the_user_is_text_in_a_header() -> None:
    assert user_in({USER: "%F0%9F"}) != ""
    assert user_in({}) == ""
