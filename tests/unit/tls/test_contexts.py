"""Which versions and suites are spoken, and which settings are refused with what to do."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from tests.certificates import SECRET, Authority, Holder

from penstock.client.security import Security
from penstock.tls.contexts import OF_1_3, asking_context, serving_context
from penstock.tls.errors import TlsConfigError
from penstock.tls.store import Key
from penstock.tls.stores import key_of

SIGNED_WITH_SHA_1 = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgQdwGst4+DqbTKBIe
vS1LnIFnU7LYZbcWc9vq1m7d0/KhRANCAAQ3Ljnyg+HzlVPkefKFvMtKwvjGXo+y
YASwor31ibsu2ZKzBbZcEcnONT5GHOpdDmfqg3tPLEuFnV4Fir/1Z1ee
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBEjCBugIUBfhf9M0CL1ziQaORqiin2e4KbTEwCQYHKoZIzj0EATAMMQowCAYD
VQQDDAFhMCAXDTI2MTEyODE2NDU0N1oYDzIxMjYxMTA0MTY0NTQ3WjAMMQowCAYD
VQQDDAFuMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAENy458oPh85VT5HnyhbzL
SsL4xl6PsmAEsKK99Ym7LtmSswW2XBHJzjU+RhzqXQ5n6oN7TyxLhZ1eBYq/9WdX
njAJBgcqhkjOPQQBA0gAMEUCIQCJhpxCRc2fdPefgVVB6t/SDzm0KEjWfl1oiPpy
jt6rFwIgbHXxxjkSxhhTHuIVqbbqz8rixKUFPVYHGf0ch38EL0s=
-----END CERTIFICATE-----
"""


@pytest.fixture(scope="module")
def holder(tmp_path_factory: pytest.TempPathFactory) -> Holder:
    return Authority(tmp_path_factory.mktemp("tls")).signs("node")


def serving(holder: Holder, settings: dict[str, str]) -> ssl.SSLContext:
    given = {
        "ssl.keystore.location": str(holder.pem),
        "ssl.truststore.location": str(holder.certificate_file),
    } | settings
    return serving_context(given, key_of(given))


def names(context: ssl.SSLContext) -> set[str]:
    """Of TLS 1.2."""
    return {cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"}


@pytest.mark.parametrize(
    ("protocols", "lowest", "highest"),
    [("", 2, 3), ("TLSv1.2,TLSv1.3", 2, 3), ("TLSv1.3", 3, 3), (" TLSv1.2 ", 2, 2)],
)
def test_versions(protocols: str, lowest: int, highest: int, holder: Holder) -> None:
    context = serving(holder, {"ssl.enabled.protocols": protocols})
    versions = {2: ssl.TLSVersion.TLSv1_2, 3: ssl.TLSVersion.TLSv1_3}
    assert (context.minimum_version, context.maximum_version) == (versions[lowest], versions[highest])
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert context.options & ssl.OP_NO_COMPRESSION


def test_suites_by_javas_names(holder: Holder) -> None:
    suites = (
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,"
        "TLS_RSA_WITH_AES_256_CBC_SHA256,TLS_DHE_RSA_WITH_AES_256_GCM_SHA384"
    )
    context = serving(holder, {"ssl.cipher.suites": suites})
    assert names(context) == {
        "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "AES256-SHA256",
        "DHE-RSA-AES256-GCM-SHA384",
    }
    assert context.maximum_version == ssl.TLSVersion.TLSv1_2, "no suite of a newer version is named"
    newest = serving(holder, {"ssl.cipher.suites": ",".join(OF_1_3)})
    assert newest.minimum_version == ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "ssl.enabled.protocols has TLSv1.1: allowed are TLSv1.2 and"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "name all of them or none"),
        ({"ssl.cipher.suites": "TLS_NO_WITH_SUCH"}, "ssl.cipher.suites has no suite that is known: TLS_NO_WITH_SUCH"),
        (
            {"ssl.cipher.suites": "TLS_RSA_WITH_AES_256_CBC_SHA", "ssl.enabled.protocols": "TLSv1.3"},
            "ssl.cipher.suites has no suite of TLSv1.3",
        ),
        ({"ssl.engine.factory.class": "org.example.X"}, "names a class of Java"),
        ({"ssl.client.auth": "maybe"}, "ssl.client.auth=maybe: allowed are none, requested, required"),
        ({"ssl.keystore.location": ""}, "ssl.keystore.location is missing"),
        ({"ssl.keystore.type": "BCFKS"}, "ssl.keystore.type=BCFKS: allowed are PEM, PKCS12, JKS"),
    ],
)
def test_what_cannot_be_done_is_refused(settings: dict[str, str], says: str, holder: Holder) -> None:
    with pytest.raises(TlsConfigError) as raised:
        serving(holder, settings)
    assert says in str(raised.value)
    assert raised.value.key in settings


def test_a_wrong_password_is_told_and_not_shown(holder: Holder) -> None:
    inline = {"ssl.keystore.key": holder.locked_key_pem, "ssl.keystore.certificate.chain": holder.certificate_pem}
    for password in ({}, {"ssl.key.password": "hunter2"}):
        given = inline | password
        with pytest.raises(TlsConfigError, match="cannot be used") as raised:
            asking_context(given, key_of(given))
        assert "hunter2" not in str(raised.value)
    asking_context(right := inline | {"ssl.key.password": SECRET}, key_of(right))
    assert "BEGIN" not in repr(key_of(right))


def test_who_asks_checks_names_and_trusts_the_system_by_default(holder: Holder, tmp_path: Path) -> None:
    context = asking_context({}, None)
    assert context.check_hostname
    assert context.verify_mode == ssl.CERT_REQUIRED
    unchecked = asking_context({"ssl.endpoint.identification.algorithm": ""}, None)
    assert not unchecked.check_hostname
    assert unchecked.verify_mode == ssl.CERT_REQUIRED
    with pytest.raises(TlsConfigError, match="allowed are https, and nothing"):
        asking_context({"ssl.endpoint.identification.algorithm": "LDAPS"}, None)


@pytest.mark.parametrize("has_store", [False, True], ids=["without a store of its own", "with one"])
def test_the_systems_authorities_are_taken_where_nobody_names_others(
    holder: Holder, monkeypatch: pytest.MonkeyPatch, *, has_store: bool
) -> None:
    taken: list[object] = []
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda *asked: taken.append(asked))
    asking_context({"ssl.truststore.location": str(holder.certificate_file)} if has_store else {}, None)
    assert len(taken) == (0 if has_store else 1)


def test_a_client_reads_its_files_again(holder: Holder, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "trusted.pem"
    file.write_text(holder.certificate_pem)
    security = Security({"ssl.truststore.location": str(file)})
    before = security.context()
    assert security.context() is before
    file.write_text("nonsense")
    assert security.context() is before
    assert "stay as they were" in caplog.text
    file.write_text(Authority(tmp_path).certificate_pem)
    assert security.context() is not before


def test_what_is_too_weak_is_not_taken_for_a_wrong_password() -> None:
    key = load_pem_private_key(SIGNED_WITH_SHA_1.encode(), None)
    lock = BestAvailableEncryption(SECRET.encode())
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock).decode()
    certificate = SIGNED_WITH_SHA_1[SIGNED_WITH_SHA_1.index("-----BEGIN CERTIFICATE") :]
    with pytest.raises(TlsConfigError, match=r"a hash that is too weak \(SHA-1\)"):
        serving_context({}, Key(locked + certificate, SECRET))
