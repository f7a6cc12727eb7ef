"""Key stores of Java's own kind (JKS), which `keytool` made before Java 9 and still makes where it is told to.

All numbers are big-endian: a magic number, the version (1 or 2), the count of entries; each entry has its tag, a name,
a time, and a private key with its certificates or one trusted certificate. A SHA-1 over the password and all of that
comes last. A private key is PKCS8 that is combined, byte by byte, with SHA-1 sums which begin with the password and a
salt: who can read the file can try passwords fast.
"""

import hmac
import struct
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha1
from typing import Final

from cryptography.hazmat.primitives.serialization import load_der_private_key

from penstock.tls.pkcs12 import locked
from penstock.tls.store import Key, Store

MAGIC: Final = b"\xfe\xed\xfe\xed"
_SEASONING: Final = b"Mighty Aphrodite"
_DIGEST: Final = 20
_PRIVATE_KEY, _TRUSTED = 1, 2
_CIPHER: Final = bytes.fromhex("060a2b060104012a02110101")
"""How a private key of this kind of store says that it is encrypted."""


class _Reader:
    """Of bytes, from the first one on. ValueError beyond the last one."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def take(self, count: int) -> bytes:
        taken = self._content[self._at : self._at + count]
        if len(taken) < count:
            raise ValueError("it ends too soon")
        self._at += count
        return taken

    def number(self, size: int = 4) -> int:
        return int.from_bytes(self.take(size), "big")

    def counted(self, size: int = 4) -> bytes:
        """Bytes behind their count."""
        return self.take(self.number(size))

    def der(self, tag: int) -> bytes:
        """The content of an item of DER."""
        if self.number(1) != tag:
            raise ValueError("a key in it is no key")
        length = self.number(1)
        return self.take(length if length < 0x80 else self.number(length & 0x7F))


def read(content: bytes, password: str | None, key_password: str | None) -> Store:
    """The first private key, and all certificates. ValueError: it is none, or has another password.

    Without a password the certificates are not checked, and a private key is refused.
    """
    body, digest = content[:-_DIGEST], content[-_DIGEST:]
    if password is not None:
        expected = sha1(_encoded(password) + _SEASONING + body)
        if not hmac.compare_digest(expected.digest(), digest):
            raise ValueError("its sum is another one")
    key, certificates = None, ""
    for protected, chain in _entries(_Reader(body)):
        pem = "".join(map(_pem, chain))
        certificates += pem
        if protected is not None and key is None:
            secret = key_password if key_password is not None else password
            if secret is None:
                raise ValueError("a private key needs it")
            own, locks = locked(load_der_private_key(_decrypted(protected, secret), None))
            key = Key(own + pem, locks)
    return Store(key, certificates)


def _entries(reader: _Reader) -> Iterator[tuple[bytes | None, list[bytes]]]:
    """The private key as it stands there, if the entry has one, and certificates as DER."""
    reader.take(len(MAGIC))
    version = reader.number()
    if version not in (1, 2):
        raise ValueError(f"it is of version {version}")
    for _ in range(reader.number()):
        tag = reader.number()
        reader.counted(2)  # its name
        reader.take(struct.calcsize(">q"))  # when it was made
        if tag == _PRIVATE_KEY:
            protected = reader.counted()
            yield protected, [_certificate(reader, version) for _ in range(reader.number())]
        elif tag == _TRUSTED:
            yield None, [_certificate(reader, version)]
        else:
            raise ValueError(f"an entry is of kind {tag}")


def _certificate(reader: _Reader, version: int) -> bytes:
    if version > 1 and (kind := reader.counted(2)) != b"X.509":
        raise ValueError(f"a certificate is of kind {kind!r}")
    return reader.counted()


def _decrypted(protected: bytes, password: str) -> bytes:
    outer = _Reader(_Reader(protected).der(0x30))
    if not outer.der(0x30).startswith(_CIPHER):
        raise ValueError("a key is encrypted in a way that is not Java's own")
    inner = outer.der(0x04)
    salt, sealed, check = inner[:_DIGEST], inner[_DIGEST:-_DIGEST], inner[-_DIGEST:]
    secret, stream = _encoded(password), bytearray()
    while len(stream) < len(sealed):
        salt = sha1(secret + salt).digest()
        stream += salt
    plain = bytes(one ^ other for one, other in zip(sealed, stream, strict=False))
    if not hmac.compare_digest(sha1(secret + plain).digest(), check):
        raise ValueError("the password of the key is another one")
    return plain


def _encoded(password: str) -> bytes:
    return password.encode("utf-16-be")


def _pem(der: bytes) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{b64encode(der).decode()}\n-----END CERTIFICATE-----\n"
