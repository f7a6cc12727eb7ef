"""An authority of one's own: keys with certificates that it signs, as PEM. The package cryptography does the work."""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from penstock.protocol.value import Value

SKEW: Final = dt.timedelta(hours=1)
"""So long before now a certificate begins: clocks differ."""


class Signed(Value):
    """A private key, which is not encrypted, and its certificate."""

    key: str
    certificate: str

    def __repr__(self) -> str:
        return "Signed()"


class Shown(Value):
    """What a certificate says. `hosts` are names and addresses as people write them."""

    name: str
    hosts: tuple[str, ...]
    begins: dt.datetime
    ends: dt.datetime


def new_authority(name: str, now: dt.datetime, days: int) -> Signed:
    """It signs nodes, and no other authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    usage = _usage(key_cert_sign=True, crl_sign=True)
    builder = (
        _begun(_named(name), _named(name), key.public_key(), now, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    return _pem(key, builder.sign(key, SHA256()))


def signed_by(authority: Signed, name: str, hosts: Sequence[str], now: dt.datetime, days: int) -> Signed:
    """A new key for CN=name, for both sides of a connection; it never outlives the authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    signs, issuer = _private(authority), _certificate(authority.certificate)
    days = min(days, (issuer.not_valid_after_utc - now).days)
    sides = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signs.public_key())
    builder = (
        _begun(_named(name), issuer.subject, key.public_key(), now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(sides, critical=False)
        .add_extension(identifier, critical=False)
        .add_extension(x509.SubjectAlternativeName(list(map(_host, hosts))), critical=False)
    )
    return _pem(key, builder.sign(signs, SHA256()))


def shown(certificate: str) -> Shown:
    """ValueError for text that is no certificate."""
    found = _certificate(certificate)
    hosts: list[str] = []
    for extension in found.extensions:
        if isinstance(extension.value, x509.SubjectAlternativeName):
            hosts = [str(name.value) for name in extension.value]
    names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    name = str(names[0].value) if names else found.subject.rfc4514_string()
    return Shown(name, tuple(hosts), found.not_valid_before_utc, found.not_valid_after_utc)


def has_signed(authority: str, certificate: str) -> bool:
    """Both are certificates."""
    try:
        _certificate(certificate).verify_directly_issued_by(_certificate(authority))
    except Exception:  # of what kind depends on how far it came
        return False
    return True


def _begun(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, now: dt.datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _usage(**those: bool) -> x509.KeyUsage:
    kinds = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    more = ("key_cert_sign", "crl_sign", "encipher_only", "decipher_only")
    return x509.KeyUsage(**dict.fromkeys((*kinds, *more), False) | those)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _certificate(text: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(text.encode())


def _private(authority: Signed) -> ec.EllipticCurvePrivateKey:
    key = load_pem_private_key(authority.key.encode(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority's key is of another kind than those that are made here")
    return key


def _pem(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> Signed:
    return Signed(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
        certificate.public_bytes(Encoding.PEM).decode(),
    )
