"""Key stores of PKCS12, which Java makes by default."""

import secrets
from collections.abc import Iterable

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
    secret = secrets.token_hex()
    locked = BestAvailableEncryption(secret.encode())
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked).decode()
    return Store(Key(key + certificates, secret), certificates)


def _pem(certificates: Iterable[x509.Certificate]) -> str:
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in certificates)
