"""A client's own word to the identity provider (RFC 7523): a token from a file, or one that it signs itself."""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from penstock.client.oauth.provider import ProviderError, read_file
from penstock.protocol.secret import Secret
from penstock.protocol.value import Value

INSTALL: Final = "pip install 'penstock[oauth]'"


class Assertion(Value):
    """`claims` are the same each time, `template` is a file with others and with header fields, or none."""

    algorithm: str
    key_file: Path
    passphrase: Secret | None
    template: Path | None
    claims: Mapping[str, str]
    holds_s: int
    held_before_s: int
    has_id: bool

    def make(self, now_s: float) -> str:
        """Raises ProviderError for files that cannot be used."""
        import jwt
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        header, claims = {"alg": self.algorithm, "typ": "JWT"}, dict[str, Any](self.claims)
        if self.template is not None:
            more_header, more_claims = _template(self.template)
            header, claims = more_header | header, claims | more_claims
        claims |= {"iat": int(now_s), "exp": int(now_s) + self.holds_s, "nbf": int(now_s) - self.held_before_s}
        if self.has_id:
            claims["jti"] = str(uuid4())
        password = None if self.passphrase is None else self.passphrase.text.encode()
        try:
            key = load_pem_private_key(read_file(self.key_file), password)
            return jwt.encode(claims, key, self.algorithm, header)  # type: ignore[arg-type]
        except (ValueError, TypeError, jwt.PyJWTError) as error:
            raise ProviderError(f"{self.key_file} cannot sign with {self.algorithm}: {error}", is_final=True) from None


def signed(assertion: Assertion, now_s: Callable[[], float] = time.time) -> Callable[[], str]:
    """ValueError if the package that signs is not installed."""
    try:
        import jwt  # noqa: F401 - whether it is there
    except ImportError:
        raise ValueError(f"sasl.oauthbearer.assertion.private.key.file: signing needs PyJWT: {INSTALL}") from None
    return lambda: assertion.make(now_s())


def from_file(path: Path) -> Callable[[], str]:
    """It is read each time: somebody else renews it."""
    return lambda: read_file(path).decode("ascii", "replace").strip()


def _template(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        found = json.loads(read_file(path))
        header, claims = found.get("header", {}), found.get("payload", {})
        return dict(header), dict(claims)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise ProviderError(f"{path} is no JSON with header and payload", is_final=True) from None
