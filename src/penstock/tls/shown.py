"""Certificates that peers of open connections have shown: whether they still hold. OpenSSL looks when one begins."""

from collections.abc import Callable

from penstock.tls.certificates import expires_s
from penstock.tls.faults import EXPIRED, REVOKED
from penstock.tls.keys import Keys
from penstock.tls.layer import TlsLayer
from penstock.tls.revoked import identity_of

OnEnd = Callable[[TlsLayer, str], None]
"""The connection has to end, and why."""


class ShownCertificates:
    """Of the peers that come, or are come to, with these keys."""

    def __init__(self, keys: Keys, now_ms: Callable[[], int]) -> None:
        self.keys = keys
        self._now_ms = now_ms
        self._known: dict[TlsLayer, tuple[bytes, OnEnd]] = {}
        """In the order in which they came."""

    def __len__(self) -> int:
        return len(self._known)

    def add(self, layer: TlsLayer, certificate: bytes, on_end: OnEnd) -> None:
        """ValueError if it does not hold any more."""
        self._check(certificate)
        self._known[layer] = certificate, on_end

    def look(self) -> None:
        """End the connections of peers whose certificates have expired, or are revoked."""
        for layer, (certificate, on_end) in list(self._known.items()):
            try:
                self._check(certificate)
            except ValueError as error:
                on_end(layer, str(error))

    def lost(self, layer: TlsLayer) -> None:
        self._known.pop(layer, None)

    def _check(self, certificate: bytes) -> None:
        if expires_s(certificate) * 1000 <= self._now_ms():
            raise ValueError(EXPIRED)
        if self.keys.revoked and identity_of(certificate) in self.keys.revoked:
            raise ValueError(REVOKED)
