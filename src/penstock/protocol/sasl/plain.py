"""PLAIN (RFC 4616): name and password in one token, so the connection has to be one that nobody else reads."""

import hmac
from collections.abc import Mapping
from typing import Final

from penstock.protocol.sasl.mechanism import SaslError, shown
from penstock.protocol.secret import Secret

NUL: Final = "\0"
REFUSED: Final = "Authentication failed: the user name or the password is wrong"
_NOBODY: Final = Secret("")


class PlainServer:
    """`users` are all that there are, with their passwords."""

    lifetime_ms = None
    token_id = None

    def __init__(self, users: Mapping[str, Secret]) -> None:
        self._users = users
        self.user: str | None = None
        self.proof: object = None

    def evaluate(self, token: bytes) -> bytes:
        parts = token.count(NUL.encode()) + 1
        if parts != 3:
            raise SaslError(f"Authentication failed: a PLAIN token has 3 parts, and this one {parts}")
        try:
            on_behalf_of, user, password = token.decode().split(NUL)
        except UnicodeDecodeError:
            raise SaslError("Authentication failed: the PLAIN token is no UTF-8") from None
        if not user or not password:
            raise SaslError("Authentication failed: the user name or the password is empty")
        expected = self._users.get(user, _NOBODY)
        if not hmac.compare_digest(expected.text.encode("utf-8", "replace"), password.encode()):
            raise SaslError(REFUSED, f"wrong password of the user {shown(user)}, or there is no such user")
        if on_behalf_of not in ("", user):
            raise SaslError("Authentication failed: the authorization id is another than the user name")
        self.user, self.proof = user, expected
        return b""


class PlainClient:
    def __init__(self, user: str, password: Secret) -> None:
        self._token = NUL.join(("", user, password.text)).encode()

    def first(self) -> bytes:
        return self._token

    def evaluate(self, challenge: bytes) -> bytes | None:
        return None
