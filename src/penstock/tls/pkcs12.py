"""Key stores of PKCS12, which Java makes by default."""

import secrets
from collections.abc import Iterable
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

from penstock.tls.store import Key, Store


def read(content: bytes, password: str | None) -> Store:
    """ValueError: it is none, or has another password."""
    store = load_pkcs12(content, password.encode() if password is not None else None)
    others = [each.certificate for each in store.additional_certs]
    own = [store.cert.certificate] if store.cert is not None else []
    certificates = _pem([*own, *others])
    if store.key is None or not own:
        return Store(None, certificates)
    key, secret = locked(store.key)
    return Store(Key(key + certificates, secret), certificates)


def locked(key: Any) -> tuple[str, str]:
    """A private key as encrypted PEM, and its new password: OpenSSL reads keys from files."""
    secret = secrets.token_hex()
    lock = BestAvailableEncryption(secret.encode())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock).decode(), secret


def _pem(certificates: Iterable[x509.Certificate]) -> str:
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in certificates)
