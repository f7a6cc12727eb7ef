"""Key stores and trust stores by Kafka's keys: a file of PEM, PKCS12 or JKS, or PEM in the configuration itself.

A file's first bytes tell its format, as for Java's own reader. From here on everything is PEM.
"""

import re
import textwrap
from base64 import b64decode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from penstock.tls.errors import TlsConfigError
from penstock.tls.store import Key, Store

KEY_STORE = "ssl.keystore.location"
TRUST_STORE = "ssl.truststore.location"
CRL = "penstock.ssl.crl.location"
TYPES: Final = ("PEM", "PKCS12", "JKS")
_JKS: Final = b"\xfe\xed\xfe\xed"
_JCEKS: Final = b"\xce\xce\xce\xce"
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.+?)-----END \1-----", re.DOTALL)
Settings = Mapping[str, str]
"""The keys of `ssl.` that are set, as text."""


def certificate_of(key: Key) -> bytes | None:
    """Its own certificate, the first one, as DER."""
    return next(certificates_in(key.pem), None)


def certificates_in(pem: str) -> Iterator[bytes]:
    """As DER."""
    bodies = (body for kind, body in _BLOCK.findall(pem) if kind == "CERTIFICATE")
    return (b64decode("".join(body.split())) for body in bodies)


def check_types(settings: Settings) -> None:
    """The file itself tells its format, but a word that is none is told. TlsConfigError."""
    for key in ("ssl.keystore.type", "ssl.truststore.type"):
        kind = settings.get(key, "PEM").strip()
        if kind not in TYPES:
            raise TlsConfigError(key, f"{key}={kind}: allowed are {', '.join(TYPES)}")


def content_of(settings: Settings) -> bytes:
    """Another value when a file has another content. TlsConfigError."""
    digest = sha256()
    for location in (KEY_STORE, TRUST_STORE, CRL):
        content = _read(settings, location) if settings.get(location) else b""
        digest.update(sha256(content).digest())
    return digest.digest()


def key_of(settings: Settings) -> Key | None:
    """The key to present; None if there is none. TlsConfigError."""
    chain = "ssl.keystore.certificate.chain"
    key, password = settings.get("ssl.keystore.key"), settings.get("ssl.key.password", "")
    if (key is None) != (settings.get(chain) is None):
        raise TlsConfigError(chain, f"ssl.keystore.key and {chain} are given together")
    if key is not None:
        _check_inline("ssl.keystore.key", settings.get(KEY_STORE), settings.get("ssl.keystore.type"))
        return Key(_lines(key, "ssl.keystore.key") + _lines(settings[chain], chain), password)
    if not settings.get(KEY_STORE):
        return None
    content = _read(settings, KEY_STORE)
    if b"-----BEGIN" in content:
        return Key(_lines(content.decode("utf-8", "replace"), KEY_STORE), password)
    store = _decoded(settings, KEY_STORE, content, settings.get("ssl.keystore.password"))
    if store.key is None:
        raise _unusable(settings, KEY_STORE, "there is no key with a certificate in it")
    return store.key


def trusted_of(settings: Settings) -> str | None:
    """Trusted certificates as PEM; None: those of the system. TlsConfigError."""
    inline = settings.get("ssl.truststore.certificates")
    if inline is not None:
        _check_inline("ssl.truststore.certificates", settings.get(TRUST_STORE), settings.get("ssl.truststore.type"))
        return _lines(inline, "ssl.truststore.certificates")
    if not settings.get(TRUST_STORE):
        return None
    content = _read(settings, TRUST_STORE)
    if b"-----BEGIN" in content:
        return _lines(content.decode("utf-8", "replace"), TRUST_STORE)
    store = _decoded(settings, TRUST_STORE, content, settings.get("ssl.truststore.password"))
    if not store.certificates:
        raise _unusable(settings, TRUST_STORE, "there are no certificates in it")
    return store.certificates


def crls_of(settings: Settings) -> tuple[bytes, ...]:
    """Lists of revoked certificates as DER, from a file of PEM or DER; none if none is named. TlsConfigError."""
    if not settings.get(CRL):
        return ()
    content = _read(settings, CRL)
    if b"-----BEGIN" not in content:
        return (content,)
    blocks = _BLOCK.findall(content.decode("utf-8", "replace"))
    found = tuple(b64decode("".join(body.split())) for kind, body in blocks if kind == "X509 CRL")
    if not found:
        raise _unusable(settings, CRL, "there is no -----BEGIN X509 CRL----- in it")
    return found


def _check_inline(key: str, location: str | None, kind: str | None) -> None:
    store = key.rpartition(".")[0]
    if location:
        raise TlsConfigError(key, f"give one of {store}.location and {key}")
    if kind not in (None, "PEM"):
        raise TlsConfigError(key, f"{key} is PEM, and {store}.type={kind}")


def _read(settings: Settings, key: str) -> bytes:
    try:
        return Path(settings[key]).read_bytes()
    except OSError as error:
        raise _unusable(settings, key, error.strerror or str(error)) from error


def _decoded(settings: Settings, key: str, content: bytes, password: str | None) -> Store:
    path, store = settings[key], key.rpartition(".")[0]
    if content.startswith(_JCEKS):
        cure = f"keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12"
        raise _unusable(settings, key, f"it is a JCEKS, which is not read; make it PKCS12: {cure}")
    try:
        from penstock.tls.jks import read as read_jks
        from penstock.tls.pkcs12 import read as read_pkcs12
    except ImportError:
        cure = f"pip install 'penstock[tls]', or make it PEM: openssl pkcs12 -in {path} -out {path}.pem"
        raise _unusable(settings, key, f"it is not PEM, and PKCS12 and JKS need cryptography: {cure}") from None
    try:
        if content.startswith(_JKS):
            return read_jks(content, password, settings.get("ssl.key.password"))
        return read_pkcs12(content, password)
    except ValueError as error:
        fault = f"{store}.password is another one" if password else f"{store}.password is missing"
        raise _unusable(settings, key, f"it is neither PEM nor PKCS12 nor JKS, or {fault}: {error}") from error


def _unusable(settings: Settings, key: str, reason: str) -> TlsConfigError:
    return TlsConfigError(key, f"{key}={settings[key]} cannot be used: {reason}")


def _lines(text: str, key: str) -> str:
    """Breaks PEM into lines for OpenSSL: a file of properties often has it in one."""
    blocks = [
        f"-----BEGIN {kind}-----\n{_wrapped(body)}\n-----END {kind}-----\n" for kind, body in _BLOCK.findall(text)
    ]
    if not blocks:
        raise TlsConfigError(key, f"{key} has no PEM in it: -----BEGIN …")
    return "".join(blocks)


def _wrapped(body: str) -> str:
    has_headers = ":" in body  # how a key was encrypted, in old files
    return body.strip() if has_headers else "\n".join(textwrap.wrap("".join(body.split()), 64))
