"""Stores of each form, keys that are replaced, and an authority of one's own: what is in them afterwards."""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID
from tests.certificates import SECRET, Authority, Holder

from penstock.tls import stores
from penstock.tls.authority import SKEW, has_signed, new_authority, shown, signed_by
from penstock.tls.contexts import asking_context, serving_context
from penstock.tls.errors import TlsConfigError
from penstock.tls.keys import Keys
from penstock.tls.pkcs12 import read
from penstock.tls.shown_names import certificate_at, names_shown

NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


def der(*holders: Holder) -> list[bytes]:
    return [one.certificate.public_bytes(Encoding.DER) for one in holders]


def packed(key: Any, certificate: Any, others: Any) -> bytes:
    return pkcs12.serialize_key_and_certificates(b"one", key, certificate, others, NoEncryption())


def test_what_is_in_a_store_of_pkcs12(authority: Authority) -> None:
    ada = authority.signs("ada")
    whole = read(packed(ada.key, ada.certificate, [authority.certificate]), None)
    assert whole.key is not None
    assert list(stores.certificates_in(whole.key.pem)) == der(ada, authority), "its own one first"
    assert whole.certificates == whole.key.pem[whole.key.pem.index("-----BEGIN CERTIFICATE") :]
    secret = whole.key.password.encode()
    assert load_pem_private_key(whole.key.pem.encode(), secret).private_numbers() == ada.key.private_numbers()  # type: ignore[union-attr]
    for content in (packed(None, None, [ada.certificate, authority.certificate]), packed(ada.key, None, [])):
        trusted = read(content, None)
        assert trusted.key is None
        assert trusted.certificates == "" or list(stores.certificates_in(trusted.certificates)) == der(ada, authority)


@pytest.mark.parametrize(
    ("key", "content", "words"),
    [
        (stores.KEY_STORE, b"nonsense", "it is neither PEM nor PKCS12 nor JKS, or ssl.keystore.password is missing: "),
        (stores.TRUST_STORE, b"nonsense", "it is neither PEM nor PKCS12 nor JKS, or ssl.truststore.password is mis"),
        (stores.KEY_STORE, b"\xce\xce\xce\xce", "it is a JCEKS, which is not read; make it PKCS12: keytool "),
        (stores.KEY_STORE, None, "No such file or directory"),
        (stores.KEY_STORE, "trusted", "there is no key with a certificate in it"),
        (stores.TRUST_STORE, "key", "there are no certificates in it"),
    ],
)
def test_what_is_wrong_with_a_store(
    key: str, content: bytes | str | None, words: str, authority: Authority, tmp_path: Path
) -> None:
    path = tmp_path / "store"
    made = {"trusted": packed(None, None, [authority.certificate]), "key": packed(authority.key, None, [])}
    if content is not None:
        path.write_bytes(made[content] if isinstance(content, str) else content)
    with pytest.raises(TlsConfigError) as raised:
        (stores.key_of if key == stores.KEY_STORE else stores.trusted_of)({key: str(path)})
    assert str(raised.value).startswith(f"{key}={path} cannot be used: {words}")
    assert raised.value.key == key


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ssl.keystore.key": "x"}, "ssl.keystore.key and ssl.keystore.certificate.chain are given together"),
        ({"ssl.keystore.certificate.chain": "x"}, "ssl.keystore.key and ssl.keystore.certificate.chain are given tog"),
        (
            {"ssl.keystore.key": "x", "ssl.keystore.certificate.chain": "x", "ssl.keystore.location": "x"},
            "give one of ssl.keystore.location and ssl.keystore.key",
        ),
        (
            {"ssl.keystore.key": "x", "ssl.keystore.certificate.chain": "x", "ssl.keystore.type": "JKS"},
            "ssl.keystore.key is PEM, and ssl.keystore.type=JKS",
        ),
        (
            {"ssl.keystore.key": "x", "ssl.keystore.certificate.chain": "x", "ssl.keystore.type": "PEM"},
            "ssl.keystore.key has no PEM in it: -----BEGIN …",
        ),
        (
            {"ssl.truststore.certificates": "x", "ssl.truststore.location": "x"},
            "give one of ssl.truststore.location and ssl.truststore.certificates",
        ),
        (
            {"ssl.truststore.certificates": "x", "ssl.truststore.type": "PKCS12"},
            "ssl.truststore.certificates is PEM, and ssl.truststore.type=PKCS12",
        ),
        ({"ssl.truststore.certificates": "x"}, "ssl.truststore.certificates has no PEM in it: -----BEGIN …"),
    ],
)
def test_what_contradicts_itself_is_refused(settings: dict[str, str], words: str) -> None:
    with pytest.raises(TlsConfigError) as raised:
        (stores.key_of if "keystore" in words else stores.trusted_of)(settings)
    assert str(raised.value).startswith(words)


def test_nothing_is_named() -> None:
    assert (stores.key_of({}), stores.trusted_of({}), stores.crls_of({})) == (None, None, ())
    empty = {stores.KEY_STORE: "", stores.TRUST_STORE: "", stores.CRL: ""}
    assert (stores.key_of(empty), stores.trusted_of(empty), stores.crls_of(empty)) == (None, None, ())
    assert stores.content_of({}) == stores.content_of(empty)


def test_keys_in_one_line_and_in_old_forms(authority: Authority) -> None:
    ada = authority.signs("ada")
    old = ada.key.private_bytes(
        Encoding.PEM, PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(SECRET.encode())
    ).decode()
    assert "Proc-Type: 4,ENCRYPTED" in old
    for key in (ada.key_pem, ada.key_pem.replace("\n", " "), old, f"  {old}\n\n"):
        chain = ada.certificate_pem.replace("\n", " ")
        given = {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain, "ssl.key.password": SECRET}
        found = stores.key_of(given)
        assert found is not None
        assert stores.certificate_of(found) == der(ada)[0]
        assert max(map(len, found.pem.splitlines())) == 64
        assert serving_context(given, found).num_tickets == 0, "who comes again shows its certificate again"


def test_another_content_is_another_value(tmp_path: Path) -> None:
    files = {key: tmp_path / key for key in (stores.KEY_STORE, stores.TRUST_STORE, stores.CRL)}
    for file in files.values():
        file.write_text("x")
    settings = {key: str(file) for key, file in files.items()}
    seen = {stores.content_of(settings)}
    for number, file in enumerate(files.values(), start=2):
        file.write_text("y")
        seen.add(stores.content_of(settings))
        assert len(seen) == number
    swapped = {**settings, stores.KEY_STORE: settings[stores.CRL], stores.CRL: ""}
    assert stores.content_of(swapped) not in seen


MORE = ("localhost", "127.0.0.1", "more.example")


@pytest.mark.parametrize(
    ("name", "hosts", "allowed", "words"),
    [
        ("node", MORE, {}, None),
        ("node", ("localhost",), {}, "the new certificate lacks hosts that the old one names"),
        ("node", ("localhost",), {"ssl.allow.san.changes": " True "}, None),
        ("node", ("localhost",), {"ssl.allow.san.changes": "false"}, "the new certificate lacks hosts"),
        ("node", ("localhost",), {"ssl.allow.dn.changes": "true"}, "the new certificate lacks hosts"),
        ("other", MORE, {}, "the new certificate is for CN=other, and ssl.allow.dn.changes is not true"),
        ("other", MORE, {"ssl.allow.dn.changes": " TRUE"}, None),
        ("other", MORE, {"ssl.allow.san.changes": "true"}, "the new certificate is for CN=other"),
        ("other", (), {"ssl.allow.dn.changes": "true", "ssl.allow.san.changes": "true"}, None),
    ],
)
def test_a_new_certificate_names_whom_the_old_one_named(
    name: str, hosts: tuple[str, ...], allowed: dict[str, str], words: str | None, authority: Authority, tmp_path: Path
) -> None:
    file = tmp_path / "node.pem"
    file.write_text(authority.signs("node").pem.read_text())
    settings = authority.keys_of() | {stores.KEY_STORE: str(file)} | allowed
    keys = Keys(lambda: settings, serving_context)
    context, certificate = keys.context, keys.certificate
    assert not keys.refresh()
    new = authority.signs(name, hosts=hosts, file="new")
    file.write_text(new.pem.read_text())
    if words is None:
        assert (keys.refresh(), keys.refresh()) == (True, False)
        assert keys.certificate == der(new)[0]
        assert keys.context is not context
        return
    for _ in range(2):
        with pytest.raises(TlsConfigError) as raised:
            keys.refresh()
        assert str(raised.value).startswith(words)
        assert raised.value.key == stores.KEY_STORE
    assert (keys.certificate, keys.context) == (certificate, context)


def test_keys_may_come_and_go(authority: Authority) -> None:
    settings = [authority.keys_of()]
    keys = Keys(lambda: settings[-1], asking_context)
    assert (keys.certificate, keys.days_left(0)) == (None, None)
    for name in ("ada", "bob"):
        holder = authority.signs(name)
        settings += [authority.keys_of(holder)]
        assert keys.refresh()
        assert keys.certificate == der(holder)[0]
        settings += [authority.keys_of()]
        assert keys.refresh()
        assert keys.certificate is None


def extensions(pem: str) -> dict[str, tuple[bool, object]]:
    found = x509.load_pem_x509_certificate(pem.encode())
    return {one.oid._name: (one.critical, one.value) for one in found.extensions}


def usage(*kinds: str) -> x509.KeyUsage:
    names = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    more = ("key_cert_sign", "crl_sign", "encipher_only", "decipher_only")
    return x509.KeyUsage(**{name: name in kinds for name in (*names, *more)})


def test_what_an_authority_and_its_nodes_may() -> None:
    top = new_authority("top", NOW, 10)
    node = signed_by(top, "node", ["b.example", "10.1.2.3", "::1"], NOW, 99)
    assert (repr(top), repr(node)) == ("Signed()", "Signed()")
    of_top, of_node = extensions(top.certificate), extensions(node.certificate)
    assert of_top.pop("basicConstraints") == (True, x509.BasicConstraints(ca=True, path_length=0))
    assert of_top.pop("keyUsage") == (True, usage("key_cert_sign", "crl_sign"))
    own = x509.SubjectKeyIdentifier.from_public_key(
        x509.load_pem_x509_certificate(top.certificate.encode()).public_key()
    )
    assert of_top == {"subjectKeyIdentifier": (False, own)}
    assert of_node.pop("basicConstraints") == (True, x509.BasicConstraints(ca=False, path_length=None))
    assert of_node.pop("keyUsage") == (True, usage("digital_signature"))
    sides = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    assert of_node.pop("extendedKeyUsage") == (False, sides)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)
    assert of_node.pop("authorityKeyIdentifier") == (False, identifier)
    assert {name: is_critical for name, (is_critical, _) in of_node.items()} == {
        "subjectAltName": False,
        "subjectKeyIdentifier": False,
    }
    said = shown(node.certificate)
    assert (said.name, said.hosts) == ("node", ("b.example", "10.1.2.3", "::1"))
    assert (said.begins, said.ends) == (NOW - SKEW, NOW + dt.timedelta(days=10)), "it does not outlive its authority"
    assert shown(signed_by(top, "n", [], NOW, 3).certificate).ends == NOW + dt.timedelta(days=3)
    assert shown(top.certificate).hosts == ()
    other = new_authority("top", NOW, 10)
    asked = [(top, node), (top, top), (other, node), (node, top)]
    assert [has_signed(one.certificate, two.certificate) for one, two in asked] == [True, True, False, False]
    assert not has_signed("nonsense", node.certificate)


def test_an_authority_without_a_name_of_its_own(authority: Authority, tmp_path: Path) -> None:
    nameless = Holder(tmp_path, x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "Org")]))
    assert shown(nameless.certificate_pem).name == "O=Org"
    assert ExtensionOID.SUBJECT_ALTERNATIVE_NAME in [one.oid for one in nameless.certificate.extensions]
    with pytest.raises(ValueError, match="PEM"):
        shown("nonsense")


async def test_whom_a_listener_is(authority: Authority) -> None:
    elsewhere = authority.signs("elsewhere", hosts=("b.example", "10.1.2.3"), file="elsewhere")
    nobody = authority.signs("nobody", hosts=(), file="nobody")

    async def ends(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    for holder, words in ((elsewhere, "; it names b.example, 10.1.2.3"), (nobody, "; it names nobody")):
        settings = authority.keys_of(holder)
        context = serving_context(settings, stores.key_of(settings))
        async with await asyncio.start_server(ends, "127.0.0.1", 0, ssl=context) as server:
            port = server.sockets[0].getsockname()[1]
            assert await asyncio.to_thread(certificate_at, "127.0.0.1", port) == der(holder)[0]
            assert await asyncio.to_thread(names_shown, "127.0.0.1", port) == words
    async with await asyncio.start_server(ends, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert await asyncio.to_thread(names_shown, "127.0.0.1", port) == ""
    assert await asyncio.to_thread(certificate_at, "127.0.0.1", port) is None


@pytest.mark.parametrize("clients", ["none", "requested", "required"])
@pytest.mark.parametrize("has_store", [False, True], ids=["without a store of its own", "with one"])
def test_who_may_come(authority: Authority, monkeypatch: pytest.MonkeyPatch, clients: str, has_store: bool) -> None:
    taken: list[object] = []
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda _, purpose: taken.append(purpose))
    settings = {stores.KEY_STORE: str(authority.signs("node").pem), "ssl.client.auth": f" {clients} "}
    settings |= authority.keys_of() if has_store else {}
    context = serving_context(settings, stores.key_of(settings))
    modes = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
    assert context.verify_mode == modes[clients]
    assert taken == ([] if has_store or clients == "none" else [ssl.Purpose.CLIENT_AUTH])
