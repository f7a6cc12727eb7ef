"""An authority, and keys with certificates that it signs, as files of PEM and PKCS12."""

from __future__ import annotations

import datetime as dt
import ipaddress
from functools import cached_property
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

HERE = ("localhost", "127.0.0.1")
SECRET = "open sesame"
NOW = dt.datetime.now(dt.UTC)


class Holder:
    """Who has a key and a certificate. Signs itself if no authority does."""

    def __init__(
        self,
        folder: Path,
        subject: x509.Name,
        signed_by: Holder | None = None,
        *,
        hosts: tuple[str, ...] = HERE,
        days: int = 60,
        begins: int = -100,
        name: str = "holder",
    ) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self._folder, self._name = folder, name
        issuer = signed_by or self
        others = x509.SubjectAlternativeName([_other_name(host) for host in hosts])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if signed_by is None else signed_by.certificate.subject)
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW + dt.timedelta(days=begins))
            .not_valid_after(NOW + dt.timedelta(days=days, hours=1))
            .add_extension(x509.BasicConstraints(ca=signed_by is None, path_length=None), critical=True)
        )
        self.certificate: x509.Certificate = (builder.add_extension(others, critical=False) if hosts else builder).sign(
            issuer.key, SHA256()
        )

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def key_pem(self) -> str:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    @property
    def locked_key_pem(self) -> str:
        locked = BestAvailableEncryption(SECRET.encode())
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked).decode()

    @cached_property
    def pem(self) -> Path:
        """Key and certificate."""
        return self._written(".pem", (self.key_pem + self.certificate_pem).encode())

    @cached_property
    def certificate_file(self) -> Path:
        return self._written(".crt", self.certificate_pem.encode())

    @cached_property
    def p12(self) -> Path:
        locked = BestAvailableEncryption(SECRET.encode())
        content = pkcs12.serialize_key_and_certificates(b"one", self.key, self.certificate, None, locked)
        return self._written(".p12", content)

    def _written(self, ending: str, content: bytes) -> Path:
        path = self._folder / (self._name + ending)
        path.write_bytes(content)
        return path


class Authority(Holder):
    """`other` is one that nobody trusts."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        super().__init__(folder, named(name), hosts=(), name=name, days=3650)

    def signs(
        self, name: str, *, hosts: tuple[str, ...] = HERE, days: int = 60, begins: int = -100, file: str | None = None
    ) -> Holder:
        """For CN=name. With less than 0 days it has expired; it begins so many days from now."""
        return Holder(self._folder, named(name), self, hosts=hosts, days=days, begins=begins, name=file or name)

    def revokes(self, *holders: Holder, days: int = 30) -> str:
        """A list of these as PEM, which holds for so many days."""
        builder = x509.CertificateRevocationListBuilder().issuer_name(self.certificate.subject)
        builder = builder.last_update(NOW - dt.timedelta(days=90)).next_update(NOW + dt.timedelta(days=days))
        for holder in holders:
            entry = x509.RevokedCertificateBuilder().serial_number(holder.certificate.serial_number)
            builder = builder.add_revoked_certificate(entry.revocation_date(NOW - dt.timedelta(days=1)).build())
        return builder.sign(self.key, SHA256()).public_bytes(Encoding.PEM).decode()

    def keys_of(self, holder: Holder | None = None) -> dict[str, str]:
        """Who trusts this authority, with a key or without."""
        trusting = {"ssl.truststore.location": str(self.certificate_file)}
        return trusting if holder is None else {**trusting, "ssl.keystore.location": str(holder.pem)}


def named(name: str) -> x509.Name:
    """CN=name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _other_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
