"""Which keys say as whom a client logs in, and what becomes of keys that cannot be used."""

from __future__ import annotations

import pickle
from threading import current_thread
from typing import Any

import pytest

from penstock.client.credentials import CLASSES, Credentials, TokenCredentials, read_credentials
from penstock.client.errors import UnusableSettingsError
from penstock.client.security import KNOWN, Security
from penstock.client.settings import ClientSettings
from penstock.protocol.sasl.jaas import OAUTH_MODULE, SCRAM_MODULE
from penstock.protocol.sasl.mechanism import SaslError
from penstock.protocol.secret import Secret
from penstock.tls import keys as keys_module
from penstock.tls.errors import TlsConfigError

ADA = {"sasl.mechanism": "PLAIN", "sasl.username": "ada", "sasl.password": "engine"}
JAAS = f'{SCRAM_MODULE} required username="bob" password="word" tokenauth="true";'


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        (ADA, Credentials("PLAIN", "ada", Secret("engine"))),
        (ADA | {"sasl.mechanism": " PLAIN "}, Credentials("PLAIN", "ada", Secret("engine"))),
        (ADA | {"sasl.password": ""}, Credentials("PLAIN", "ada", Secret(""))),
        (ADA | {"sasl.mechanisms": "SCRAM-SHA-256"}, Credentials("PLAIN", "ada", Secret("engine"))),
        (
            ADA | {"sasl.mechanism": "", "sasl.mechanisms": "SCRAM-SHA-256"},
            Credentials("SCRAM-SHA-256", "ada", Secret("engine")),
        ),
        (
            ADA | {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": JAAS},
            Credentials("SCRAM-SHA-512", "bob", Secret("word"), by_token=True),
        ),
    ],
)
def test_as_whom(keys: dict[str, str], found: Credentials) -> None:
    assert read_credentials(keys) == found


def without(name: str) -> dict[str, str]:
    return {key: value for key, value in ADA.items() if key != name}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (without("sasl.mechanism"), "^sasl.mechanism is not set, and GSSAPI"),
        (ADA | {"sasl.mechanism": "GSSAPI"}, "^sasl.mechanism: GSSAPI"),
        (without("sasl.mechanism") | {"sasl.mechanisms": "GSSAPI"}, "^sasl.mechanism: GSSAPI"),
        (without("sasl.username"), "^PLAIN needs sasl.jaas.config, or sasl.username and sasl.password$"),
        (ADA | {"sasl.username": ""}, "^PLAIN needs"),
        (without("sasl.password"), "^PLAIN needs"),
        *((ADA | {name: "org.example.A"}, f"^{name}: classes of Java's cannot be loaded; remove") for name in CLASSES),
        (
            {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.jwt.validator.class": "org.example.A"},
            "^sasl.oauthbearer.jwt.validator.class: classes of Java's cannot be loaded, but for",
        ),
        ({"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": "x"}, "^sasl.jaas.config: "),
    ],
)
def test_what_cannot_be_used_is_named(keys: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_credentials(keys)


def test_a_key_that_is_empty_is_not_set() -> None:
    assert isinstance(read_credentials(ADA | dict.fromkeys(CLASSES, "")), Credentials)


class Source:
    def __init__(self, error: SaslError | None) -> None:
        self.error = error

    def token(self) -> Secret:
        if self.error is not None:
            raise self.error
        return Secret("a.b.c")


def test_who_logs_in_with_a_token_says_its_extensions() -> None:
    good = TokenCredentials(Source(None), {"pool": "eu"})  # type: ignore[arg-type]
    assert good.client().first() == b"n,,\x01auth=Bearer a.b.c\x01pool=eu\x01\x01"
    assert good.thread.submit(lambda: current_thread().name).result() == "identity provider"
    good.thread.shutdown()
    bad = TokenCredentials(Source(SaslError("it is away")), {})  # type: ignore[arg-type]
    with pytest.raises(SaslError, match=r"^there is no token to log in with: it is away$"):
        bad.client()
    options = f'{OAUTH_MODULE} required unsecuredLoginStringClaim_sub="ada" extension_a="b";'
    found = read_credentials({"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": options})
    assert isinstance(found, TokenCredentials)
    assert found.client().first().endswith(b"\x01a=b\x01\x01")


# -- the keys behind a protocol ---------------------------------------------------------------------------------------


def test_keys_are_compared_by_what_they_say_and_shown_by_name() -> None:
    one, same, other = Security(ADA), Security(dict(ADA)), Security(ADA | {"sasl.password": "x"})
    assert (one == same, one == other, one == ADA, hash(one) == hash(same)) == (True, False, False, True)
    assert repr(one) == "Security(sasl.mechanism, sasl.password, sasl.username)"
    assert pickle.loads(pickle.dumps(one)) == one
    assert one.credentials is one.credentials
    given = Credentials("PLAIN", "bob", Secret("word"))
    assert Security(ADA, given).credentials is given


@pytest.mark.parametrize(
    ("key", "hint"), [("sasl.mechanis", "; did you mean sasl.mechanism?"), ("ssl.zzzzzzzzzzzzzzzzz", "")]
)
def test_a_key_that_is_not_known_is_named(key: str, hint: str) -> None:
    with pytest.raises(ValueError, match="is not a setting") as raised:
        Security({key: "x"})
    assert str(raised.value) == f"{key} is not a setting of this client{hint}"
    assert list(KNOWN) == sorted(set(KNOWN))


class Keys:
    """Files that can be read so often."""

    good = 1

    def __init__(self, properties: Any, make: object) -> None:
        assert properties() == {}
        self.context = 0
        self.refresh()

    def refresh(self) -> None:
        if not Keys.good:
            raise TlsConfigError("ssl.keystore.location", "no such file")
        Keys.good -= 1
        self.context += 1


def test_files_are_read_anew_and_stay_as_they_were_where_they_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_module, "Keys", Keys)
    security: Any = Security()
    for good, context in ((1, 1), (1, 2), (0, 2), (1, 3)):
        Keys.good = good
        assert security.context() == context
    Keys.good = 0
    with pytest.raises(UnusableSettingsError, match="no such file"):
        Security().context()


@pytest.mark.parametrize(
    ("protocol", "over_tls", "logs_in"),
    [("PLAINTEXT", False, False), ("SSL", True, False), ("SASL_PLAINTEXT", False, True), ("SASL_SSL", True, True)],
)
def test_what_a_protocol_needs(
    monkeypatch: pytest.MonkeyPatch, protocol: str, *, over_tls: bool, logs_in: bool
) -> None:
    monkeypatch.setattr(Security, "opening", lambda self, *what: what)
    monkeypatch.setattr(Security, "log_in_on", lambda self, *what: what)
    made: Any = ClientSettings(security_protocol=protocol)
    assert made.opening("protocol", "host", "fail") == (("protocol", "host", "fail") if over_tls else None)
    assert made.log_in_on("connection") == (("connection", made.random) if logs_in else None)
