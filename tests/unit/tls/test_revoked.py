"""Lists of revoked certificates: what they name, and what OpenSSL makes of them."""

from __future__ import annotations

import ssl
from base64 import b64decode
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from tests.certificates import Authority

from penstock.tls.contexts import serving_context
from penstock.tls.errors import TlsConfigError
from penstock.tls.keys import Keys
from penstock.tls.revoked import identity_of, revoked_by
from penstock.tls.stores import CRL


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


def der(pem: str) -> bytes:
    return b64decode("".join(pem.splitlines()[1:-1]))


def test_a_list_names_certificates_by_issuer_and_number(authority: Authority) -> None:
    ada, bob, carol = (authority.signs(name) for name in ("ada", "bob", "carol"))
    found = revoked_by(der(authority.revokes(ada, bob)))
    certificates = [one.certificate.public_bytes(Encoding.DER) for one in (ada, bob, carol)]
    assert [identity_of(one) in found for one in certificates] == [True, True, False]
    assert len(found) == 2
    assert revoked_by(der(authority.revokes())) == frozenset()


def test_another_authority_has_numbers_of_its_own(authority: Authority, tmp_path: Path) -> None:
    ada, other = authority.signs("ada"), Authority(tmp_path, "other")
    assert identity_of(ada.certificate.public_bytes(Encoding.DER)) not in revoked_by(der(other.revokes(ada)))


@pytest.mark.parametrize("content", [b"", b"\x30", b"\x30\x00", b"\x30\x02\x30\x00", b"\x30\x80\x00\x00", b"x" * 99])
def test_what_is_damaged_is_told(content: bytes) -> None:
    with pytest.raises(ValueError, match="damaged"):
        revoked_by(content)


@pytest.mark.parametrize("form", ["pem", "der"])
def test_a_new_list_makes_a_new_context(form: str, authority: Authority, tmp_path: Path) -> None:
    file, ada = tmp_path / "list.crl", authority.signs("ada")

    def write(pem: str) -> None:
        file.write_bytes(pem.encode() if form == "pem" else der(pem))

    write(authority.revokes())
    settings = authority.keys_of(authority.signs("node")) | {CRL: str(file), "ssl.client.auth": "required"}
    keys = Keys(lambda: settings, serving_context)
    first = keys.context
    assert (keys.revoked, keys.refresh()) == (frozenset(), False)
    assert first.verify_flags & ssl.VERIFY_CRL_CHECK_LEAF
    write(authority.revokes(ada))
    assert keys.refresh()
    assert len(keys.revoked) == 1
    assert keys.context is not first


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        ("nonsense", "cannot be used"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "no -----BEGIN X509 CRL-----"),
        ("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----", "cannot be used"),
    ],
)
def test_a_file_that_is_none_is_named(content: str | None, words: str, authority: Authority, tmp_path: Path) -> None:
    file = tmp_path / "list.crl"
    if content is not None:
        file.write_text(content)
    settings = authority.keys_of(authority.signs("node")) | {CRL: str(file), "ssl.client.auth": "required"}
    with pytest.raises(TlsConfigError, match=words) as refused:
        Keys(lambda: settings, serving_context)
    assert refused.value.key == CRL


@pytest.mark.parametrize(("left_s", "days"), [(3 * 86_400, 3), (3 * 86_400 - 1, 2), (1, 0), (-1, -1)])
def test_the_days_that_a_certificate_has_left(authority: Authority, left_s: int, days: int) -> None:
    ada = authority.signs("ada")
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(ada.pem)}
    expires_s = int(ada.certificate.not_valid_after_utc.timestamp())
    assert Keys(lambda: settings, serving_context).days_left((expires_s - left_s) * 1000) == days
