"""Keys and certificates that may be replaced while they are used: what is new is taken from the next connection on."""

import ssl
from collections.abc import Callable

from penstock.tls import stores
from penstock.tls.certificates import expires_s, other_names_of, subject_of
from penstock.tls.errors import TlsConfigError
from penstock.tls.revoked import Identity, revoked_by
from penstock.tls.store import Key
from penstock.tls.stores import Settings

MakeContext = Callable[[Settings, Key | None], ssl.SSLContext]


class Keys:
    """Reads settings and files when it is made, and when `refresh` is called. TlsConfigError.

    A new certificate names who the old one named, unless `ssl.allow.dn.changes` and `ssl.allow.san.changes` say that it
    need not: a file that was mixed up is not taken.
    """

    def __init__(self, settings: Callable[[], Settings], make: MakeContext) -> None:
        """`make` is `serving_context` or `asking_context`."""
        self._settings = settings
        self._make = make
        self._seen: tuple[Settings, bytes] | None = None
        self.certificate: bytes | None = None
        """That of the key, as DER."""
        self.revoked: frozenset[Identity] = frozenset()
        """Certificates of others that are good no longer."""
        self.context: ssl.SSLContext
        self.refresh()

    def days_left(self, now_ms: int) -> int | None:
        """Whole days until the certificate expires, -1 and less if it has; None without one."""
        if self.certificate is None:
            return None
        return (expires_s(self.certificate) * 1000 - now_ms) // 86_400_000

    def refresh(self) -> bool:
        """Whether settings or the content of files have changed; what cannot be used leaves all as it was."""
        settings = self._settings()
        seen = settings, stores.content_of(settings)
        if seen == self._seen:
            return False
        key = stores.key_of(settings)
        context = self._make(settings, key)
        revoked = _revoked(settings)
        certificate = None if key is None else stores.certificate_of(key)
        if certificate is not None and self.certificate is not None:
            _check_change(self.certificate, certificate, settings)
        self.context, self.certificate, self.revoked, self._seen = context, certificate, revoked, seen
        return True


def _revoked(settings: Settings) -> frozenset[Identity]:
    try:
        return frozenset().union(*(revoked_by(one) for one in stores.crls_of(settings)))
    except ValueError as error:
        raise TlsConfigError(stores.CRL, f"the lists of {stores.CRL} cannot be used: {error}") from error


def _check_change(old: bytes, new: bytes, settings: Settings) -> None:
    had, has = subject_of(old), subject_of(new)
    if had != has and settings.get("ssl.allow.dn.changes", "").strip().lower() != "true":
        raise TlsConfigError(
            stores.KEY_STORE, f"the new certificate is for {has}, and ssl.allow.dn.changes is not true"
        )
    if (
        other_names_of(old) - other_names_of(new)
        and settings.get("ssl.allow.san.changes", "").strip().lower() != "true"
    ):
        raise TlsConfigError(
            stores.KEY_STORE,
            "the new certificate lacks hosts that the old one names, and ssl.allow.san.changes is not true",
        )
