"""Who may ask a worker, where it has users."""

from __future__ import annotations

import base64
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from penstock.work.connect.config import ConfigError
from penstock.work.connect.rest.basic import BASIC, CLASSES_KEY, FILE_KEY, WRITERS_KEY, Users, header_of, users_of
from penstock.work.connect.rest.errors import RestError

if TYPE_CHECKING:
    from collections.abc import Mapping


def users(
    tmp_path: Path, text: str = "ada=pa:ss wörd\nbob: x\n", more: Mapping[str, Any] = MappingProxyType({})
) -> Users | None:
    file = tmp_path / "users.properties"
    file.write_text(text, encoding="utf-8")
    return users_of({CLASSES_KEY: (BASIC,), FILE_KEY: str(file), WRITERS_KEY: (), **more})


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize("header", [header_of("ada:pa:ss wörd"), f"basic  {encoded('bob:x')} "])
def test_a_user_with_the_right_password_is_heard(tmp_path: Path, header: str) -> None:
    found = users(tmp_path)
    assert found is not None
    user = found.check({"Authorization": header})
    found.check_right(user, changes=True)


def test_where_writers_are_named_others_may_look(tmp_path: Path) -> None:
    found = users(tmp_path, more={WRITERS_KEY: ("ada",)})
    assert found is not None
    found.check_right("ada", changes=True)
    found.check_right("bob", changes=False)
    for user, changes, words in (("bob", True, "bob may look and not change"), ("eve", False, "knows no user eve")):
        with pytest.raises(RestError, match=words) as raised:
            found.check_right(user, changes=changes)
        assert raised.value.status is HTTPStatus.FORBIDDEN


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Basic",
        "Basic ",
        "Basic %%%",
        f"Basic {encoded('ada')}",
        f"Basic {encoded('ada:')}",
        f"Basic {encoded('ada:pa')}",
        f"Basic {encoded('ada:pa:ss wörd ')}",
        f"Basic {encoded('eve:x')}",
        f"Basic {encoded(':')}",
        f"Basic {encoded('eve:')}",
        f"Bearer {encoded('bob:x')}",
        f"Basic {encoded('bob:x')}%",
        f"Basic %{encoded('bob:x')}",
        "Basic " + base64.b64encode(b"bob:\xff").decode(),
    ],
)
def test_others_are_not_in_words_that_tell_nothing(tmp_path: Path, header: str | None) -> None:
    found = users(tmp_path)
    assert found is not None
    with pytest.raises(RestError, match=r"^User cannot access the resource\.$") as raised:
        found.check({} if header is None else {"Authorization": header})
    assert raised.value.status is HTTPStatus.UNAUTHORIZED


def test_without_the_keys_everybody_may_ask(tmp_path: Path) -> None:
    assert users_of({CLASSES_KEY: (), FILE_KEY: None, WRITERS_KEY: ()}) is None
    users(tmp_path)
    assert users(tmp_path, more={CLASSES_KEY: ("BasicAuthSecurityRestExtension",)}) is not None


@pytest.mark.parametrize(
    ("text", "settings", "words"),
    [
        ("", {}, "needs lines of user=password"),
        ("ada=\n", {}, "no password is empty"),
        ("ada=\\u12", {}, "users.properties: "),
        ("a=b", {FILE_KEY: "/nowhere/at/all"}, "cannot be read: No such file"),
        ("a=b", {FILE_KEY: None}, f"{FILE_KEY} is missing"),
        ("a=b", {CLASSES_KEY: ()}, f"{CLASSES_KEY} is missing"),
        ("a=b", {WRITERS_KEY: ("a", "c")}, f"{WRITERS_KEY} names c: {FILE_KEY} has no such user"),
        ("a=b", {CLASSES_KEY: (), FILE_KEY: None, WRITERS_KEY: ("a",)}, f"{WRITERS_KEY} names a: "),
        ("a=b", {CLASSES_KEY: (BASIC, "com.example.Mine")}, "com.example.Mine: of Java's classes only"),
    ],
)
def test_what_cannot_be_obeyed_is_no_worker(tmp_path: Path, text: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        users(tmp_path, text, settings)
    assert words in str(raised.value)


def test_no_text_tells_a_password(tmp_path: Path) -> None:
    found = users(tmp_path)
    assert found is not None
    assert "pa:ss" not in repr(vars(found))
