"""Key stores of Java's own kind, made by `keytool`."""

from __future__ import annotations

import ssl
from base64 import b64decode
from pathlib import Path

import pytest

from penstock.tls import jks
from penstock.tls.contexts import serving_context
from penstock.tls.errors import TlsConfigError
from penstock.tls.stores import certificates_in, key_of, trusted_of

STORE, KEY = "changeit1", "othersecret"
KEY_STORE = b64decode(
    "/u3+7QAAAAIAAAABAAAAAQAEbm9kZQAAAaIhozZgAAAAfzB9MA4GCisGAQQBKgIRAQEFAARrOviSRocK6YytBSm610BUm+Xw1Jkp+ctqtBZq9A"
    "ySAAJjHnRwSgURdDbZafTt4UnxSEc5iFH0UYGAKsi5kiJDSPBQDnqzHqktR1kRymBgehh0ANCebSWt03Cz7MecRohbL8r1aSCuR6jaSo4AAAAB"
    "AAVYLjUwOQAAAVcwggFTMIH6oAMCAQICCQC+p6C8mU15tjAKBggqhkjOPQQDAjAPMQ0wCwYDVQQDEwRub2RlMCAXDTI2MTEyODEwMTExM1oYDz"
    "IxMjYxMTA0MTAxMTEzWjAPMQ0wCwYDVQQDEwRub2RlMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEwm+/ZYwqnef9S/PmISkETTjODyh4uyx1"
    "RuvCdv9DPFTJ+gyTaF5jgIJq15E39E6YOVgCZ0m+fPdoDvAZP51aQqM9MDswHQYDVR0OBBYEFIIArWkBy9oB4JbcsIsOueps/WFoMBoGA1UdEQ"
    "QTMBGCCWxvY2FsaG9zdIcEfwAAATAKBggqhkjOPQQDAgNIADBFAiBNWxEzeaUCppqI6RGGT8O6cNDnu3Qge3SVocmihevrFQIhAI+gr+EkC0XN"
    "DFhGMElSOiaDmbrYVijB7uhh9JaxfJDRvHWxdvb+3xEF3h1Y8ebDN6YchIE="
)
"""With a key of the name "node", which has a password of its own."""
SAME_PASSWORD = b64decode(
    "/u3+7QAAAAIAAAABAAAAAQAEbm9kZQAAAaIho0E0AAAAfzB9MA4GCisGAQQBKgIRAQEFAARrkeLvxEoBwykWYkNUyhbG19DSyHyfQhi9JqjbrZ"
    "4yI6wIcU33jUbMh771DyH04/AyiB0pPgNyLp+JVHwRvimBGix8qV6/J2MqcRwhaNl8AdSIVsZk7ooWDm3OejmPwtmkc4UCNKB61734zRsAAAAB"
    "AAVYLjUwOQAAAVcwggFTMIH6oAMCAQICCQC+p6C8mU15tjAKBggqhkjOPQQDAjAPMQ0wCwYDVQQDEwRub2RlMCAXDTI2MTEyODEwMTExM1oYDz"
    "IxMjYxMTA0MTAxMTEzWjAPMQ0wCwYDVQQDEwRub2RlMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEwm+/ZYwqnef9S/PmISkETTjODyh4uyx1"
    "RuvCdv9DPFTJ+gyTaF5jgIJq15E39E6YOVgCZ0m+fPdoDvAZP51aQqM9MDswHQYDVR0OBBYEFIIArWkBy9oB4JbcsIsOueps/WFoMBoGA1UdEQ"
    "QTMBGCCWxvY2FsaG9zdIcEfwAAATAKBggqhkjOPQQDAgNIADBFAiBNWxEzeaUCppqI6RGGT8O6cNDnu3Qge3SVocmihevrFQIhAI+gr+EkC0XN"
    "DFhGMElSOiaDmbrYVijB7uhh9JaxfJDRC2czphUy1DeKM42Rs2tZR3AyprE="
)
TRUST_STORE = b64decode(
    "/u3+7QAAAAIAAAABAAAAAgAEbm9kZQAAAaIhoz0mAAVYLjUwOQAAAVcwggFTMIH6oAMCAQICCQC+p6C8mU15tjAKBggqhkjOPQQDAjAPMQ0wCw"
    "YDVQQDEwRub2RlMCAXDTI2MTEyODEwMTExM1oYDzIxMjYxMTA0MTAxMTEzWjAPMQ0wCwYDVQQDEwRub2RlMFkwEwYHKoZIzj0CAQYIKoZIzj0D"
    "AQcDQgAEwm+/ZYwqnef9S/PmISkETTjODyh4uyx1RuvCdv9DPFTJ+gyTaF5jgIJq15E39E6YOVgCZ0m+fPdoDvAZP51aQqM9MDswHQYDVR0OBB"
    "YEFIIArWkBy9oB4JbcsIsOueps/WFoMBoGA1UdEQQTMBGCCWxvY2FsaG9zdIcEfwAAATAKBggqhkjOPQQDAgNIADBFAiBNWxEzeaUCppqI6RGG"
    "T8O6cNDnu3Qge3SVocmihevrFQIhAI+gr+EkC0XNDFhGMElSOiaDmbrYVijB7uhh9JaxfJDRvTIhfnFFfuPPYVQTavF/M8Hcj5A="
)
"""With the certificate of that key."""


@pytest.mark.parametrize(
    ("content", "settings"),
    [(KEY_STORE, {"ssl.key.password": KEY}), (SAME_PASSWORD, {}), (SAME_PASSWORD, {"ssl.keystore.type": "PKCS12"})],
    ids=["a key with its own password", "with that of the store", "the type is another one"],
)
def test_a_node_serves_with_it(content: bytes, settings: dict[str, str], tmp_path: Path) -> None:
    store, trusted = tmp_path / "node.jks", tmp_path / "trust.jks"
    store.write_bytes(content)
    trusted.write_bytes(TRUST_STORE)
    given = {
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": STORE,
        "ssl.truststore.location": str(trusted),
        "ssl.truststore.password": STORE,
        **settings,
    }
    key = key_of(given)
    assert key is not None
    assert list(certificates_in(trusted_of(given) or "")) == list(certificates_in(key.pem))
    context = serving_context(given, key)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context(cadata=trusted_of(given))
    ours = context.wrap_bio(incoming, outgoing, server_side=True)
    theirs = client.wrap_bio(outgoing, incoming, server_hostname="localhost")
    for _ in range(4):
        for side in (theirs, ours):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert theirs.getpeercert()["subject"] == ((("commonName", "node"),),)  # type: ignore[index]


@pytest.mark.parametrize(
    ("content", "password", "key_password", "fault"),
    [
        (KEY_STORE, STORE, None, "the password of the key is another one"),
        (KEY_STORE, STORE, STORE, "the password of the key is another one"),
        (KEY_STORE, "guessed", KEY, "its sum is another one"),
        (SAME_PASSWORD, None, None, "a private key needs it"),
        (b"\xfe\xed\xfe\xed\0\0\0\3" + bytes(40), None, None, "of version 3"),
        (b"\xfe\xed\xfe\xed\0\0\0\2\0\0\0\1\0\0\0\3" + bytes(40), None, None, "of kind 3"),
    ],
)
def test_what_cannot_be_read(content: bytes, password: str | None, key_password: str | None, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        jks.read(content, password, key_password)


def test_certificates_need_no_password() -> None:
    found = jks.read(TRUST_STORE, None, None)
    assert (found.key, len(list(certificates_in(found.certificates)))) == (None, 1)


@pytest.mark.parametrize("store", [KEY_STORE, TRUST_STORE], ids=["a key", "trusted"])
def test_bad_bytes_are_told(store: bytes) -> None:
    """Cut at each byte, and with each byte changed: without a password no sum says that it is not whole."""
    for end in range(len(store)):
        with pytest.raises(ValueError, match=r"."):
            jks.read(store[:end], STORE, KEY)
    for place in range(len(store)):
        changed = bytearray(store)
        changed[place] ^= 0xFF
        try:
            jks.read(bytes(changed), None, KEY)
        except ValueError:
            continue


def test_what_is_said(tmp_path: Path) -> None:
    (tmp_path / "key.jks").write_bytes(KEY_STORE)
    given = {"ssl.keystore.location": str(tmp_path / "key.jks"), "ssl.keystore.password": STORE}
    with pytest.raises(TlsConfigError, match=r"key.jks cannot be used: .*the password of the key is another one"):
        key_of(given)


def joined(*files: bytes) -> bytes:
    """A store with the entries of these, which have one each. Its sum is not theirs."""
    return files[0][:8] + len(files).to_bytes(4, "big") + b"".join(one[12:-20] for one in files) + bytes(20)


def test_the_first_key_of_several_counts() -> None:
    """The others may have other passwords."""
    for first, second in ((KEY_STORE, SAME_PASSWORD), (SAME_PASSWORD, KEY_STORE)):
        password = KEY if first is KEY_STORE else STORE
        found = jks.read(joined(TRUST_STORE, first, TRUST_STORE, second), None, password)
        assert found.key is not None
        assert len(list(certificates_in(found.key.pem))) == 1
        assert len(list(certificates_in(found.certificates))) == 4
    other = joined(TRUST_STORE, KEY_STORE)
    with pytest.raises(ValueError, match="its sum is another one"):
        jks.read(other, STORE, KEY)
    with pytest.raises(ValueError, match="it ends too soon"):
        jks.read(joined(TRUST_STORE)[:11] + b"\2" + joined(TRUST_STORE)[12:], None, None)


@pytest.mark.parametrize(
    ("content", "found"),
    [(b"\x30\0", b""), (b"\x30\x02ab", b"ab"), (b"\x30\x7f" + bytes(127), bytes(127)), (b"\x30\x80" + bytes(200), b""),
     (b"\x30\x81\x80" + bytes(200), bytes(128)), (b"\x30\x82\1\0" + bytes(300), bytes(256))],
)  # fmt: skip
def test_lengths_of_items(content: bytes, found: bytes) -> None:
    assert jks._Reader(content).der(0x30) == found
    with pytest.raises(ValueError, match="a key in it is no key"):
        jks._Reader(content).der(0x31)
