"""Certificates that peers of open connections have shown: whether they still hold. OpenSSL looks when one begins."""

from collections.abc import Callable
from typing import NamedTuple

from penstock.tls.certificates import expires_s
from penstock.tls.faults import EXPIRED, REVOKED
from penstock.tls.keys import Keys
from penstock.tls.layer import TlsLayer
from penstock.tls.revoked import Identity, identity_of

OnEnd = Callable[[TlsLayer, str], None]
"""The connection has to end, and why."""


class _Shown(NamedTuple):
    """What is asked of a certificate again and again: very many connections may be there."""

    expires_ms: int
    identity: Identity
    on_end: OnEnd


class ShownCertificates:
    """Of the peers that come, or are come to, with these keys."""

    def __init__(self, keys: Keys, now_ms: Callable[[], int]) -> None:
        self.keys = keys
        self._now_ms = now_ms
        self._known: dict[TlsLayer, _Shown] = {}
        """In the order in which they came."""

    def __len__(self) -> int:
        return len(self._known)

    def add(self, layer: TlsLayer, certificate: bytes, on_end: OnEnd) -> None:
        """ValueError if it does not hold any more."""
        one = _Shown(expires_s(certificate) * 1000, identity_of(certificate), on_end)
        if fault := self._fault(one, self._now_ms()):
            raise ValueError(fault)
        self._known[layer] = one

    def look(self) -> None:
        """End the connections of peers whose certificates have expired, or are revoked."""
        now_ms = self._now_ms()
        for layer, one in list(self._known.items()):
            if fault := self._fault(one, now_ms):
                one.on_end(layer, fault)

    def lost(self, layer: TlsLayer) -> None:
        self._known.pop(layer, None)

    def _fault(self, one: _Shown, now_ms: int) -> str:
        """Why it does not hold; empty if it does."""
        if one.expires_ms <= now_ms:
            return EXPIRED
        revoked = self.keys.revoked
        return REVOKED if revoked and one.identity in revoked else ""
