"""What a JSON web token says (RFC 7519), and whether that is enough: as Kafka's BrokerJwtValidator looks at it.

Signatures are checked elsewhere; the time is an argument.
"""

import binascii
import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import Any, Final

from penstock.protocol.sasl.mechanism import shown
from penstock.protocol.sasl.oauthbearer import RefusedTokenError
from penstock.protocol.value import Value

MAX_NAME_CHARACTERS: Final = 1_000
MAX_TIME_S: Final = 253_402_300_800
"""The end of the year 9999."""
NO_ALGORITHM: Final = "none"
_PART: Final = re.compile("[A-Za-z0-9_-]*")


class Token(Value):
    """The parts of a token, none of which is to be believed yet."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any]
    signed: bytes
    signature: bytes

    def __repr__(self) -> str:
        return "Token([hidden])"

    @property
    def algorithm(self) -> str:
        found = self.header.get("alg")
        return found if isinstance(found, str) else ""

    @property
    def key_id(self) -> str | None:
        found = self.header.get("kid")
        if found is not None and not isinstance(found, str):
            raise RefusedTokenError("the id of its key is no text")
        return found


class Expected(Value):
    """What a token has to say. `issuer` None and no `audiences`: whatever it says there."""

    issuer: str | None
    audiences: tuple[str, ...]
    skew_s: int
    name_claim: str = "sub"
    scope_claim: str = "scope"
    scopes: tuple[str, ...] = ()
    """All of them have to be in it."""
    needs_issue_time: bool = True


class Checked(Value):
    """Whom a token names, and for how long from now."""

    name: str
    lifetime_ms: int


def parse_token(text: str) -> Token:
    """Raises RefusedTokenError."""
    parts = text.split(".")
    if len(parts) != 3:
        raise RefusedTokenError(f"a token has three parts with dots between them, and this one {len(parts)}")
    header, payload, signature = map(_decoded, parts)
    found = Token(_object(header), _object(payload), text.rpartition(".")[0].encode(), signature)
    if "crit" in found.header or "b64" in found.header:
        raise RefusedTokenError("its header asks for an extension that is not known")
    return found


def claims_of(text: str) -> Mapping[str, Any]:
    """Those of a token that is somebody else's to believe. Raises RefusedTokenError."""
    return parse_token(text).claims


def check_claims(claims: Mapping[str, Any], expected: Expected, now_ms: int) -> Checked:
    """Raises RefusedTokenError."""
    now_s, skew_s = now_ms / 1000, expected.skew_s
    expires_s = time_of(claims, "exp")
    if now_s - skew_s >= expires_s:
        raise RefusedTokenError(f"it has expired {now_s - expires_s:.0f} s ago (or a clock is wrong)")
    if claims.get("nbf") is not None and time_of(claims, "nbf") > now_s + skew_s:
        raise RefusedTokenError(f"it holds from {time_of(claims, 'nbf') - now_s:.0f} s on (or a clock is wrong)")
    if expected.needs_issue_time or claims.get("iat") is not None:
        time_of(claims, "iat")
    issuer = claims.get("iss")
    if expected.issuer is not None and issuer != expected.issuer:
        raise RefusedTokenError(f"its issuer is {_told(issuer)}, and not the sasl.oauthbearer.expected.issuer")
    if expected.audiences and not set(_texts(claims, "aud")) & set(expected.audiences):
        meant = _told(claims.get("aud"))
        raise RefusedTokenError(f"it is for {meant}, and for no sasl.oauthbearer.expected.audience")
    _check_scopes(claims, expected)
    return Checked(_name(claims, expected.name_claim), max(int((expires_s + skew_s) * 1000) - now_ms, 1))


def _check_scopes(claims: Mapping[str, Any], expected: Expected) -> None:
    raw = claims.get(expected.scope_claim)
    scopes = _texts(claims, expected.scope_claim) if isinstance(raw, str | list) else []
    if any(not scope.strip() for scope in scopes) or len(set(scopes)) != len(scopes):
        raise RefusedTokenError(f"a scope in {expected.scope_claim} is empty, or there twice")
    had = {word for scope in scopes for word in scope.split()}
    missing = [scope for scope in expected.scopes if scope not in had]
    if missing:
        raise RefusedTokenError(f"it lacks the scope {', '.join(missing)}")


def _name(claims: Mapping[str, Any], claim: str) -> str:
    name = claims.get(claim)
    if not isinstance(name, str) or not name.strip():
        raise RefusedTokenError(f"its claim {claim}, which names the user, is missing or no text")
    if len(name) > MAX_NAME_CHARACTERS or "\0" in name:
        raise RefusedTokenError(f"a user's name has at most {MAX_NAME_CHARACTERS} characters, and no NUL")
    if any("\ud800" <= one <= "\udfff" for one in name):
        raise RefusedTokenError("a user's name has half a character, which nothing can be sent with")
    return name.strip()


def time_of(claims: Mapping[str, Any], claim: str) -> float:
    """Seconds since 1970. Raises RefusedTokenError where there are none."""
    found = claims.get(claim)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < MAX_TIME_S:
        raise RefusedTokenError(f"its claim {claim} is missing, or no time")
    return found


def _texts(claims: Mapping[str, Any], claim: str) -> list[str]:
    """One text or many."""
    found = claims.get(claim)
    many = found if isinstance(found, list) else [] if found is None else [found]
    if not all(isinstance(one, str) for one in many):
        raise RefusedTokenError(f"its claim {claim} is no text")
    return many


def _told(value: object) -> str:
    return "not said" if value is None else shown(str(value))


def _decoded(part: str) -> bytes:
    try:
        if not _PART.fullmatch(part):
            raise ValueError
        return urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (ValueError, binascii.Error):
        raise RefusedTokenError("a part of it is no base64") from None


def _object(text: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RefusedTokenError("a part of it is no JSON")
    return found
