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

from penstock.tls.certificates import (
    TEXTS,
    Element,
    begins_s,
    elements,
    expires_s,
    field_of,
    first,
    issuer_of,
    names_in,
    other_names_of,
    subject_of,
)

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


def part(tag: int, *content: bytes) -> bytes:
    """DER of fewer than 128 bytes."""
    whole = b"".join(content)
    return bytes([tag, len(whole)]) + whole


def certificate(*fields: bytes, version: bytes = b"") -> bytes:
    """As much of one as is read."""
    return part(0x30, part(0x30, version, *fields))


NUMBER, KIND, NOBODY = part(2, b"\7"), part(0x30), part(0x30)
COMMON_NAME = part(6, bytes((0x55, 4, 3)))


@pytest.mark.parametrize("version", [b"", part(0xA0, part(2, b"\2"))], ids=["of version 1", "of version 3"])
def test_fields_are_counted_behind_the_version(version: bytes) -> None:
    times = part(0x30, part(0x17, b"491231235959Z"), part(0x18, b"20500101000000Z"))
    ada, bob = (part(0x30, part(0x31, part(0x30, COMMON_NAME, part(12, name)))) for name in (b"ada", b"bob"))
    one = certificate(NUMBER, KIND, bob, times, ada, version=version)
    assert (subject_of(one), issuer_of(one), field_of(one, 0).whole) == ("CN=ada", "CN=bob", NUMBER)
    assert (begins_s(one), expires_s(one)) == (2_524_607_999, 2_524_608_000)
    assert (names_in(one), other_names_of(one)) == ([], frozenset())
    for count in range(5):
        with pytest.raises(ValueError, match="damaged"):
            subject_of(certificate(*(NUMBER, KIND, bob, times)[:count], version=version))


@pytest.mark.parametrize(
    ("text", "year"),
    [("500101000000Z", 1950), ("490101000000Z", 2049), ("700101000000Z", 1970), ("000101000000Z", 2000)],
)
def test_years_of_two_digits(text: str, year: int) -> None:
    times = part(0x30, *[part(0x17, text.encode())] * 2)
    one = certificate(NUMBER, KIND, NOBODY, times, NOBODY)
    assert begins_s(one) == expires_s(one) == dt.datetime(year, 1, 1, tzinfo=dt.UTC).timestamp()


@pytest.mark.parametrize("tag", range(1, 31))
def test_what_java_takes_for_text(tag: int) -> None:
    assert TEXTS == (12, 19, 20, 22, 27, 30)
    name = part(0x30, part(0x31, part(0x30, COMMON_NAME, part(tag, b"ada"))))
    written = "CN=ada" if tag in (12, 19, 20, 22, 27, 30) else f"CN=#{tag:02x}03616461"
    assert subject_of(certificate(NUMBER, KIND, NOBODY, NOBODY, name)) == written


@pytest.mark.parametrize(
    ("number", "written"),
    [
        ("0.0", b"\0"), ("0.39", b"\x27"), ("1.0", b"\x28"), ("1.39", b"\x4f"), ("2.0", b"\x50"), ("2.47", b"\x7f"),
        ("2.48", b"\x81\0"), ("2.999.3", b"\x88\x37\3"), ("1.2.128.16384", b"\x2a\x81\0\x81\x80\0"),
    ],
)  # fmt: skip
def test_numbers_of_kinds(number: str, written: bytes) -> None:
    name = part(0x30, part(0x31, part(0x30, part(6, written), part(12, b"x"))))
    assert subject_of(certificate(NUMBER, KIND, NOBODY, NOBODY, name)) == f"{number}=#0c0178"


def test_elements_that_stand_one_after_the_other() -> None:
    long = bytes(200)
    content = b"\5\0" + b"\4\x02ab" + b"\4\x81\xc8" + long + b"\4\x82\0\xc8" + long + b"\5\0"
    assert list(elements(content)) == [
        Element(5, b"", b"\5\0"),
        Element(4, b"ab", b"\4\x02ab"),
        Element(4, long, b"\4\x81\xc8" + long),
        Element(4, long, b"\4\x82\0\xc8" + long),
        Element(5, b"", b"\5\0"),
    ]
    assert first(content) == Element(5, b"", b"\5\0")
    for damaged in (b"\5", b"\5\0\5", b"\4\x02a", b"\x1f\0", b"\x3f\1a", b"\xff\0", b"\4\x81\xc8" + long[1:]):
        with pytest.raises(ValueError, match=r"^the certificate is damaged$"):
            list(elements(damaged))
    with pytest.raises(ValueError, match="damaged"):
        first(b"")
