"""OAUTHBEARER (RFC 7628, KIP-255): the token of an identity provider in one message, so nobody else may read along.

Key and value pairs may come with the token (SASL extensions, KIP-342): they are checked for their form, and nothing
goes by them, as with Kafka's own validators.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from penstock.protocol.sasl.mechanism import SaslError, shown
from penstock.protocol.secret import Secret
from penstock.protocol.value import Value

MAX_TOKEN_BYTES: Final = 64 * 1024
"""Tokens with very many groups have some ten thousand; to look at what is longer would hold up others."""
MAX_EXTENSIONS: Final = 100
END: Final = "\x01"
AUTH: Final = "auth"
REFUSED: Final = '{"status":"invalid_token"}'
"""All that a client is told; the log has the reason."""
_KEY: Final = "[A-Za-z]+"
_VALUE: Final = r"[\x21-\x7e \t\r\n]+"
_NAME: Final = r"(?:[\x02-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_FIRST: Final = re.compile(f"n,(?:a=(?P<authzid>{_NAME}))?,\x01(?P<pairs>(?:{_KEY}={_VALUE}\x01)*)\x01")
_BEARER: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)
EXTENSION_KEY: Final = re.compile(_KEY)
EXTENSION_VALUE: Final = re.compile(_VALUE)


class TokenUser(Value):
    """Whom a token stands for, and for how long from now; with another `proof` at the listener it does no longer."""

    name: str
    lifetime_ms: int
    proof: object


class RefusedTokenError(Exception):
    """The text says why, without the token, for the log alone."""


class OAuthServer:
    """`check` raises RefusedTokenError, NotYet."""

    token_id = None

    def __init__(self, check: Callable[[str], TokenUser]) -> None:
        self._check = check
        self._cause: str | None = None
        self.user: str | None = None
        self.proof: object = None
        self.lifetime_ms: int | None = None

    def evaluate(self, token: bytes) -> bytes:
        if self._cause is not None:
            raise SaslError(REFUSED, self._cause)
        on_behalf_of, bearer = _parsed(token)
        try:
            found = self._check(bearer)
        except RefusedTokenError as error:
            self._cause = str(error)
            return REFUSED.encode()
        if on_behalf_of not in (None, found.name):
            raise SaslError(
                "Authentication failed: the authorization id is another than the name in the token",
                f"the token of {shown(found.name)} with the authorization id {shown(on_behalf_of or '')}",
            )
        self.user, self.proof, self.lifetime_ms = found.name, found.proof, found.lifetime_ms
        return b""


def _parsed(message: bytes) -> tuple[str | None, str]:
    """The authorization id, if there is one, and the token."""
    if len(message) > MAX_TOKEN_BYTES:
        raise SaslError(f"Authentication failed: a message of OAUTHBEARER has at most {MAX_TOKEN_BYTES} bytes")
    try:
        found = _FIRST.fullmatch(message.decode("ascii"))
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise SaslError("Authentication failed: this is no first message of OAUTHBEARER")
    pairs = [tuple(pair.split("=", 1)) for pair in found["pairs"].split(END) if pair]
    given = dict(pairs)
    if len(given) != len(pairs) or len(pairs) > MAX_EXTENSIONS:
        raise SaslError(f"Authentication failed: extensions are named once, and are {MAX_EXTENSIONS} at most")
    bearer = _BEARER.fullmatch(given.get(AUTH, ""))
    if bearer is None or bearer["scheme"].lower() != "bearer":
        raise SaslError("Authentication failed: there is no bearer token in the message")
    name = found["authzid"]
    return name and name.replace("=2C", ",").replace("=3D", "="), bearer["token"]


class OAuthClient:
    def __init__(self, token: Secret, extensions: Mapping[str, str]) -> None:
        """Raises SaslError for what cannot be sent."""
        for name, value in extensions.items():
            if name == AUTH or not EXTENSION_KEY.fullmatch(name) or not EXTENSION_VALUE.fullmatch(value):
                raise SaslError(f"the SASL extension {shown(name)} has a name or a value that cannot be sent")
        self._token = token
        self._extensions = extensions

    def first(self) -> bytes:
        more = "".join(f"{name}={value}{END}" for name, value in self._extensions.items())
        return f"n,,{END}{AUTH}=Bearer {self._token.text}{END}{more}{END}".encode("ascii", "replace")

    def evaluate(self, challenge: bytes) -> bytes | None:
        """A challenge says that the token is refused; the answer to that has the broker say so once more."""
        return END.encode() if challenge else None
