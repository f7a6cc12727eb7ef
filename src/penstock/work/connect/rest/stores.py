"""Key stores and trust stores by Java's keys: a file of PKCS12 or PEM, or PEM that stands in the configuration itself.

A file's first bytes tell its format, as for Java's own reader. From here on everything is PEM.
"""

import re
import secrets
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates, load_pkcs12

from penstock.protocol.value import Value
from penstock.work.connect.config import ConfigError, ConfigKey

TYPES: Final = ("PEM", "PKCS12", "JKS")
KEYS: Final = (
    ConfigKey("ssl.keystore.type", documentation="The format of the key store.", choices=TYPES),
    ConfigKey("ssl.keystore.location", documentation="The file with the key and its certificates."),
    ConfigKey("ssl.keystore.password", "password", documentation="The password of that file, if it is PKCS12."),
    ConfigKey("ssl.keystore.key", "password", documentation="The key itself as PEM, instead of a file."),
    ConfigKey("ssl.keystore.certificate.chain", "password", documentation="The key's certificates as PEM."),
    ConfigKey("ssl.key.password", "password", documentation="The password of the key, if it is PEM."),
    ConfigKey("ssl.truststore.type", documentation="The format of the trust store.", choices=TYPES),
    ConfigKey("ssl.truststore.location", documentation="The certificates of those who are trusted."),
    ConfigKey("ssl.truststore.password", "password", documentation="The password of that file, if it is PKCS12."),
    ConfigKey("ssl.truststore.certificates", "password", documentation="These certificates themselves as PEM."),
)
_JAVAS_OWN: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.+?)-----END \1-----", re.DOTALL)
Settings = Mapping[str, Any]


class Key(Value):
    """A private key and its certificates as PEM. The key is encrypted with the password, unless that is empty."""

    pem: str
    password: str


def key_of(settings: Settings) -> Key | None:
    """The key to present; None if there is none. ConfigError."""
    location, chain = "ssl.keystore.location", "ssl.keystore.certificate.chain"
    key, password = settings["ssl.keystore.key"], settings["ssl.key.password"] or ""
    if (key is None) != (settings[chain] is None):
        raise ConfigError({chain: [f"ssl.keystore.key and {chain} are given together"]})
    if key is not None:
        _check_inline(settings, "keystore", "ssl.keystore.key")
        return Key(pem=_lines(key, "ssl.keystore.key") + _lines(settings[chain], chain), password=password)
    if not settings[location]:
        return None
    content = _read(settings, location)
    if b"-----BEGIN" in content:
        return Key(pem=_lines(content.decode("utf-8", "replace"), location), password=password)
    store = _pkcs12(settings, "keystore", content)
    if store.key is None or store.cert is None:
        raise _unusable(settings, location, "there is no key with a certificate in it")
    secret = secrets.token_hex()
    encrypted = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(secret.encode()))
    certificates = [store.cert.certificate, *(each.certificate for each in store.additional_certs)]
    return Key(pem=encrypted.decode() + _certificates(certificates), password=secret)


def trusted_of(settings: Settings) -> str | None:
    """Trusted certificates as PEM; None: those of the system. ConfigError."""
    location, inline = "ssl.truststore.location", "ssl.truststore.certificates"
    if settings[inline] is not None:
        _check_inline(settings, "truststore", inline)
        return _lines(settings[inline], inline)
    if not settings[location]:
        return None
    content = _read(settings, location)
    if b"-----BEGIN" in content:
        return _lines(content.decode("utf-8", "replace"), location)
    store = _pkcs12(settings, "truststore", content)
    found = [each.certificate for each in (store.cert, *store.additional_certs) if each is not None]
    if not found:
        raise _unusable(settings, location, "there are no certificates in it")
    return _certificates(found)


def _check_inline(settings: Settings, store: str, key: str) -> None:
    if settings[f"ssl.{store}.location"]:
        raise ConfigError({key: [f"give one of ssl.{store}.location and {key}"]})
    if settings[f"ssl.{store}.type"] not in (None, "PEM"):
        raise ConfigError({key: [f"{key} is PEM, and ssl.{store}.type={settings[f'ssl.{store}.type']}"]})


def _read(settings: Settings, key: str) -> bytes:
    try:
        return Path(settings[key]).read_bytes()
    except OSError as error:
        raise _unusable(settings, key, str(error)) from error


def _pkcs12(settings: Settings, store: str, content: bytes) -> PKCS12KeyAndCertificates:
    location, password = f"ssl.{store}.location", settings[f"ssl.{store}.password"]
    path = settings[location]
    if content.startswith(_JAVAS_OWN):
        cure = f"keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12"
        raise _unusable(
            settings, location, f"it is of Java's own kind (JKS), which is not read; make it PKCS12: {cure}"
        )
    try:
        return load_pkcs12(content, password.encode() if password is not None else None)
    except ValueError as error:
        raise _unusable(
            settings, location, f"it is neither PEM nor PKCS12, or ssl.{store}.password is another one: {error}"
        ) from error


def _unusable(settings: Settings, key: str, reason: str) -> ConfigError:
    return ConfigError({key: [f"{key}={settings[key]} cannot be used: {reason}"]})


def _certificates(certificates: Iterable[x509.Certificate]) -> str:
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in certificates)


def _lines(text: str, key: str) -> str:
    """Breaks PEM into lines for OpenSSL: a file of properties often has it in one."""
    blocks = [
        f"-----BEGIN {kind}-----\n{_wrapped(body)}\n-----END {kind}-----\n" for kind, body in _BLOCK.findall(text)
    ]
    if not blocks:
        raise ConfigError({key: [f"{key} has no PEM in it: -----BEGIN …"]})
    return "".join(blocks)


def _wrapped(body: str) -> str:
    has_headers = ":" in body  # how a key was encrypted, in old files
    return body.strip() if has_headers else "\n".join(textwrap.wrap("".join(body.split()), 64))
