"""What is read from certificates: subjects as Java writes them, names, and the end."""

from __future__ import annotations

import datetime as dt
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import Name, NameAttribute, ObjectIdentifier, RelativeDistinguishedName
from cryptography.x509.name import _ASN1Type as Kind
from cryptography.x509.oid import NameOID
from tests.certificates import Holder, named

from penstock.tls.certificates import expires_s, names_in, other_names_of, subject_of

CN, ORG, UNIT, C = (
    NameOID.COMMON_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.COUNTRY_NAME,
)
PARTS = {
    "CN": CN,
    "O": ORG,
    "OU": UNIT,
    "C": C,
    "ST": NameOID.STATE_OR_PROVINCE_NAME,
    "L": NameOID.LOCALITY_NAME,
    "mail": NameOID.EMAIL_ADDRESS,
    "number": NameOID.SERIAL_NUMBER,
    "DC": NameOID.DOMAIN_COMPONENT,
    "UID": NameOID.USER_ID,
    "STREET": NameOID.STREET_ADDRESS,
    "title": NameOID.TITLE,
    "own": ObjectIdentifier("1.3.6.1.4.1.99999.1"),
}


def name(**parts: str) -> Name:
    return Name([NameAttribute(PARTS[kind], value) for kind, value in parts.items()])


def der(holder: Holder) -> bytes:
    return holder.certificate.public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("subject", "written"),
    [
        (
            name(C="DE", ST="Hesse", L="Frankfurt", O='Org, Inc. = #1 "x" <y>; a\\b +', OU=" both ", CN="ada"),
            r"CN=ada,OU=\ both\ ,O=Org\, Inc. \= \#1 \"x\" \<y\>\; a\\b \+,L=Frankfurt,ST=Hesse,C=DE",
        ),
        (
            name(mail="a@b.c", number="42", DC="example", UID="u1", STREET="Main St. 5", title="Dr", CN="müller 漢"),
            "CN=müller 漢,2.5.4.12=#0c024472,STREET=Main St. 5,UID=u1,DC=example,2.5.4.5=#13023432,"
            "1.2.840.113549.1.9.1=#16056140622e63",
        ),
        (
            Name(
                [
                    RelativeDistinguishedName(
                        [NameAttribute(CN, "a"), NameAttribute(UNIT, "b"), NameAttribute(ORG, "c")]
                    ),
                    RelativeDistinguishedName([NameAttribute(C, "DE")]),
                ]
            ),
            "C=DE,CN=a+O=c+OU=b",
        ),
        (name(CN="nul\0l", O="#hash", OU=" "), "OU=\\ ,O=\\#hash,CN=nul\\00l"),
        (name(CN="a\rb\n\tc'()+,-./:?", O="\rcr\r"), "O=\\\rcr\\\r,CN=a\rb\n\tc'()\\+\\,-./:?"),
        (
            Name([NameAttribute(CN, "bm漢", Kind.BMPString), NameAttribute(UNIT, "uni", Kind.UniversalString)]),
            'OU=#1c0c000000750000006e00000069,CN=\\00b\\00mo\\"',
        ),
        (name(own="own", CN="x"), "CN=x,1.3.6.1.4.1.99999.1=#0c036f776e"),
        (Name([]), ""),
    ],
)
def test_a_subject_is_written_as_java_writes_it(subject: Name, written: str, tmp_path: Path) -> None:
    """The texts are those that Java's X500Principal gave for such certificates."""
    assert subject_of(der(Holder(tmp_path, subject))) == written


def test_who_is_named_and_until_when(tmp_path: Path) -> None:
    holder = Holder(tmp_path, named("a"), hosts=("b.example", "10.1.2.3", "::1", "a.example"))
    assert names_in(der(holder)) == ["a.example", "b.example", "10.1.2.3", "::1"]
    assert len(other_names_of(der(holder))) == 4
    assert names_in(der(Holder(tmp_path, named("a"), hosts=()))) == []
    for days in (5, 365 * 40):
        holder = Holder(tmp_path, named("a"), days=days)
        assert expires_s(der(holder)) == int(holder.certificate.not_valid_after_utc.timestamp())
    assert holder.certificate.not_valid_after_utc > dt.datetime(2050, 1, 1, tzinfo=dt.UTC)


def test_what_is_damaged_is_a_value_error(tmp_path: Path) -> None:
    whole = der(Holder(tmp_path, named("ada")))
    for end in range(len(whole)):
        for read in (subject_of, expires_s, names_in):
            with pytest.raises(ValueError, match="damaged"):
                read(whole[:end])
    for at in range(len(whole)):
        for byte in (0, 1, 0x7F, 0x84, 0xFF):
            for read in (subject_of, expires_s, names_in):
                try:
                    read(whole[:at] + bytes([byte]) + whole[at + 1 :])
                except ValueError:
                    continue
    assert ssl.DER_cert_to_PEM_cert(whole)
