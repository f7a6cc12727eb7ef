"""Basic authentication (RFC 7617) of the REST interface, as Connect's own extension has it: users in a file.

    rest.extension.classes=org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension
    penstock.rest.basic.auth.file=/etc/connect/users.properties

Each line of the file is `user=password`, as for Java's `PropertyFileLoginModule`. Every request has to be a user's:
there is none that only workers make, and what a worker hands on to another says whose it is (`signatures`). With

    penstock.rest.basic.auth.writers=ada,bob

these alone may change something; the others may look.
"""

import base64
import binascii
import hmac
from collections.abc import Collection, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from penstock.metadata.configs.pairs import PropertiesError, decode_properties
from penstock.protocol.secret import Secret
from penstock.work.connect.config import ConfigError
from penstock.work.connect.rest.errors import RestError

CLASSES_KEY: Final = "rest.extension.classes"
FILE_KEY: Final = "penstock.rest.basic.auth.file"
WRITERS_KEY: Final = "penstock.rest.basic.auth.writers"
BASIC: Final = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
HEADER: Final = "Authorization"
ASKS: Final = {"WWW-Authenticate": 'Basic realm="connect", charset="UTF-8"'}
"""Headers of an answer to nobody known."""
_NOBODY: Final = Secret("")


class Users:
    """Who may ask, by name, and who of them may change something."""

    def __init__(self, passwords: Mapping[str, Secret], writers: Collection[str]) -> None:
        self._passwords = passwords
        self._writers = frozenset(writers or passwords)

    def check(self, headers: Mapping[str, str]) -> str:
        """Who it is. RestError 401, in the same words and after the same work for a wrong password and no such user."""
        user, password = _credentials(headers.get(HEADER, ""))
        expected = self._passwords.get(user, _NOBODY)
        is_right = hmac.compare_digest(expected.text.encode(), password.encode())
        if not is_right or expected is _NOBODY:
            raise RestError(HTTPStatus.UNAUTHORIZED, "User cannot access the resource.")
        return user

    def check_right(self, user: str, *, changes: bool) -> None:
        """RestError 403. Another worker may have named a user that this one does not know."""
        if user not in self._passwords:
            raise RestError(HTTPStatus.FORBIDDEN, f"this worker knows no user {user}: all workers need the same users")
        if changes and user not in self._writers:
            raise RestError(HTTPStatus.FORBIDDEN, f"{user} may look and not change: {WRITERS_KEY} names who may")


def users_of(settings: Mapping[str, Any]) -> Users | None:
    """None where everybody may ask. ConfigError for what cannot be obeyed: nobody may be served by mistake."""
    classes, file = settings[CLASSES_KEY], settings[FILE_KEY]
    others = [name for name in classes if name not in (BASIC, BASIC.rpartition(".")[2])]
    if others:
        raise ConfigError({CLASSES_KEY: [f"{CLASSES_KEY}={','.join(others)}: of Java's classes only {BASIC} is known"]})
    if bool(classes) != bool(file):
        missing = FILE_KEY if classes else CLASSES_KEY
        raise ConfigError({missing: [f"{missing} is missing: basic authentication needs {CLASSES_KEY} and {FILE_KEY}"]})
    return _users(_read(file) if file else {}, settings[WRITERS_KEY])


def _users(passwords: Mapping[str, Secret], writers: Collection[str]) -> Users | None:
    strangers = sorted(set(writers) - passwords.keys())
    if strangers:
        reason = f"{WRITERS_KEY} names {', '.join(strangers)}: {FILE_KEY} has no such user"
        raise ConfigError({WRITERS_KEY: [reason]})
    return Users(passwords, writers) if passwords else None


def _read(file: str) -> Mapping[str, Secret]:
    try:
        found = decode_properties(Path(file).read_bytes())
    except OSError as error:
        raise ConfigError({FILE_KEY: [f"{FILE_KEY}={file} cannot be read: {error.strerror}"]}) from None
    except PropertiesError as error:
        raise ConfigError({FILE_KEY: [f"{FILE_KEY}={file}: {error}"]}) from None
    if not found or not all(found.values()):
        raise ConfigError({FILE_KEY: [f"{FILE_KEY}={file} needs lines of user=password, and no password is empty"]})
    return {user: Secret(password) for user, password in found.items()}


def _credentials(header: str) -> tuple[str, str]:
    """User and password; both empty for what is none."""
    scheme, _, text = header.strip().partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        user, _, password = base64.b64decode(text.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return "", ""
    return user, password


def header_of(user_info: str) -> str:
    """The header of a client; `user_info` is `user:password`."""
    return f"Basic {base64.b64encode(user_info.encode()).decode()}"
