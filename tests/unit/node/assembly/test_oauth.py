"""Which tokens a listener believes: attacks, and a provider that takes other keys, hangs, lies, and is away."""

from __future__ import annotations

import asyncio
import hmac
import json
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

import pytest
from tests.identity_provider import AUDIENCE, ISSUER, SigningPair, claims

from penstock.client.oauth.allowed import URLS
from penstock.client.oauth.provider import Provider, ProviderError
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.oauth import ListenerOAuth
from penstock.node.assembly import oauth
from penstock.node.assembly.oauth import MAX_KEYS, UNKNOWN_KEY_S, ProviderKeys, TokenCheck, TokenChecks, keys_in
from penstock.node.assembly.sasl import check_sasl
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.sasl.claims import Expected
from penstock.protocol.sasl.mechanism import NotYet
from penstock.protocol.sasl.oauthbearer import RefusedTokenError

FIRST, RSA, FOREIGN = SigningPair("first"), SigningPair("rsa", "RS256"), SigningPair("first")
SETTINGS = ListenerOAuth(Expected(ISSUER, (AUDIENCE,), 30), "https://keys.example", {}, 3_600_000, 100, 10_000)
UNSECURED = SETTINGS.replace(jwks_url=None, expected=Expected(None, (), 0, needs_issue_time=False))


class Published:
    def __init__(self) -> None:
        self.pairs = [FIRST, RSA]
        self.answer: bytes | None = None
        self.fault: str | None = None
        self.times = 0
        self.elapsed_s = 100.0

    def ask(self) -> bytes:
        self.times += 1
        if self.fault is not None:
            raise ProviderError(self.fault)
        return self.answer or json.dumps({"keys": [pair.jwk for pair in self.pairs]}).encode()


@asynccontextmanager
async def checking(provider: Published, settings: ListenerOAuth = SETTINGS) -> AsyncIterator[Checks]:
    keys = ProviderKeys(provider.ask, "the provider", settings, lambda: provider.elapsed_s)
    try:
        yield Checks(TokenCheck(settings, keys, lambda: int(time.time() * 1000)))
    finally:
        await keys.stop()


class Checks:
    def __init__(self, check: TokenCheck) -> None:
        self.check = check

    async def name(self, token: str) -> str:
        """As a connection does: what is to come is waited for."""
        try:
            return self.check(token).name
        except NotYet as later:
            there = asyncio.Event()
            later.listen(there.set)
            await there.wait()
            return self.check(token).name

    async def refused(self, token: str) -> str:
        with pytest.raises(RefusedTokenError) as refused:
            await self.name(token)
        return str(refused.value)


def part(content: object) -> str:
    return urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def unsigned(header: dict[str, Any], signature: str = "") -> str:
    return f"{part(header)}.{part(claims())}.{signature}"


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "ES512", "EdDSA"])
async def test_tokens_are_believed_by_their_signature(algorithm: str) -> None:
    provider = Published()
    pair = SigningPair("k", "RS256") if algorithm[0] in "RP" else SigningPair("k", algorithm)
    pair.algorithm = algorithm
    provider.pairs = [FIRST, pair]
    async with checking(provider) as checks:
        assert await checks.name(pair.sign(claims(sub="bob"))) == "bob"
        assert await checks.name(FIRST.sign(claims())) == "ada"
        assert provider.times == 1


async def test_a_token_without_a_signature_is_none() -> None:
    async with checking(Published()) as checks:
        for algorithm in ("none", "None", "NONE", "nOnE", "", None, ["none"]):
            assert "none of RS256" in await checks.refused(unsigned({"alg": algorithm, "kid": "first"}))
        assert "none of RS256" in await checks.refused(unsigned({}))
        for algorithm in ("RS256", "ES256"):
            name = "first" if algorithm == "ES256" else "rsa"
            assert "signature is wrong" in await checks.refused(unsigned({"alg": algorithm, "kid": name}))


@pytest.mark.parametrize("pair", [FIRST, RSA])
async def test_a_public_key_is_no_secret_to_sign_with(pair: SigningPair) -> None:
    header = part({"alg": "HS256", "kid": pair.name})
    signed = f"{header}.{part(claims())}"
    signature = urlsafe_b64encode(hmac.digest(pair.public_pem, signed.encode(), "sha256")).rstrip(b"=").decode()
    async with checking(Published()) as checks:
        assert "'HS256', which is none of" in await checks.refused(f"{signed}.{signature}")


async def test_an_algorithm_of_another_kind_of_key_is_refused() -> None:
    async with checking(Published()) as checks:
        token = SigningPair("first", "RS256").sign(claims())
        assert "its key 'first' for RS256 is none of the provider" in await checks.refused(token)


async def test_a_foreign_key_of_a_known_name_is_refused() -> None:
    async with checking(Published()) as checks:
        assert await checks.refused(FOREIGN.sign(claims())) == "its signature is wrong"
        own = FOREIGN.sign(claims(), jwk=FOREIGN.jwk, jku="https://evil.example", x5u="https://evil.example")
        assert await checks.refused(own) == "its signature is wrong"


async def test_a_token_that_was_changed_is_refused() -> None:
    header, _, signature = FIRST.sign(claims()).split(".")
    async with checking(Published()) as checks:
        assert await checks.refused(f"{header}.{part(claims(sub='admin'))}.{signature}") == "its signature is wrong"


@pytest.mark.parametrize(
    "changed",
    [{"exp": None}, {"exp": 1}, {"iss": "https://other.example"}, {"iss": None}, {"aud": "other"}, {"aud": None}],
)
async def test_claims_are_looked_at_first_and_ask_nobody(changed: dict[str, Any]) -> None:
    provider = Published()
    async with checking(provider) as checks:
        await checks.name(FIRST.sign(claims()))
        provider.elapsed_s += 2 * UNKNOWN_KEY_S
        await checks.refused(SigningPair("unknown").sign(claims(**changed)))
        assert provider.times == 1


async def test_who_shows_a_new_key_waits_for_it_and_is_let_in() -> None:
    provider, new = Published(), SigningPair("new")
    async with checking(provider) as checks:
        await checks.name(FIRST.sign(claims()))
        provider.pairs.append(new)
        provider.elapsed_s += UNKNOWN_KEY_S
        assert await checks.name(new.sign(claims())) == "ada"
        assert provider.times == 2


async def test_names_of_keys_that_are_invented_ask_the_provider_once_in_a_while() -> None:
    provider = Published()
    async with checking(provider) as checks:
        await checks.name(FIRST.sign(claims()))
        provider.elapsed_s += UNKNOWN_KEY_S - 0.1
        await checks.refused(SigningPair("invented").sign(claims()))
        assert provider.times == 1
        provider.elapsed_s += 0.1
        for name in ("a", "b", "c"):
            await checks.refused(SigningPair(name).sign(claims()))
        assert provider.times == 2


async def test_a_key_that_is_withdrawn_is_believed_no_longer() -> None:
    provider = Published()
    async with checking(provider, SETTINGS.replace(refresh_ms=1)) as checks:
        await checks.name(FIRST.sign(claims()))
        provider.pairs = [RSA]
        times = provider.times
        while provider.times < times + 2:
            await asyncio.sleep(0)
        assert "is none of the provider" in await checks.refused(FIRST.sign(claims()))


async def test_a_provider_that_is_away_is_asked_again_and_what_is_known_counts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    provider = Published()
    provider.fault = "away"
    async with checking(provider, SETTINGS.replace(retry_backoff_ms=1, retry_backoff_max_ms=1)) as checks:
        assert "the keys cannot be fetched: away" in await checks.refused(FIRST.sign(claims()))
        provider.fault = None
        while "are there again" not in caplog.text:
            await asyncio.sleep(0)
        assert await checks.name(FIRST.sign(claims())) == "ada"
    assert caplog.text.count("cannot be fetched") == 1


def test_pauses_grow_up_to_the_longest() -> None:
    pauses_ms = oauth._pauses_ms(SETTINGS.replace(retry_backoff_ms=100, retry_backoff_max_ms=700))
    assert list(islice(pauses_ms, 5)) == [100, 200, 400, 700, 700]


async def test_a_fault_of_which_nobody_thought_ends_neither_the_wait_of_clients_nor_the_fetching(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provider = Published()
    with monkeypatch.context() as broken:
        broken.setattr(oauth, "keys_in", lambda _: 1 / 0)
        async with checking(provider, SETTINGS.replace(retry_backoff_ms=1)) as checks:
            assert "ZeroDivisionError" in await checks.refused(FIRST.sign(claims()))
            broken.undo()
            provider.elapsed_s += UNKNOWN_KEY_S
            assert await checks.name(FIRST.sign(claims())) == "ada"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "no set of keys"),
        (b"[]", "no set of keys"),
        (b'{"keys": 7}', "no set of keys"),
        (b"[" * 100_000, "no set of keys"),
        (b'{"keys": []}', "it has no key for one of RS256"),
        (b'{"keys": ["x", {}, {"kty": ["RSA"]}]}', "it has no key"),
        (json.dumps({"keys": [{"kty": "oct", "k": "AAAA", "alg": "HS256"}]}).encode(), "it has no key"),
        (json.dumps({"keys": [FIRST.jwk | {"use": "enc"}]}).encode(), "it has no key"),
        (json.dumps({"keys": [FIRST.jwk | {"key_ops": ["sign"]}]}).encode(), "it has no key"),
        (json.dumps({"keys": [FIRST.jwk | {"key_ops": None}]}).encode(), "it has no key"),
        (json.dumps({"keys": [FIRST.jwk | {"kid": 7}]}).encode(), "it has no key"),
        (json.dumps({"keys": [FIRST.jwk | {"x": "AAAA"}]}).encode(), "it has no key"),
        (json.dumps({"keys": [FIRST.jwk | {"alg": "RS256"}]}).encode(), "it has no key"),
        (json.dumps({"keys": [SigningPair("short", "RS256", 1024).jwk]}).encode(), "it has no key"),
        (json.dumps({"keys": [FIRST.jwk] * (MAX_KEYS + 1)}).encode(), "101 keys"),
    ],
)
def test_what_are_no_keys(answer: bytes, words: str) -> None:
    with pytest.raises(ProviderError, match=words):
        keys_in(answer)


def test_a_private_key_among_them_is_taken_for_its_public_half() -> None:
    jwk = json.loads(json.dumps(oauth._CODE["RS256"].to_jwk(RSA.private, as_dict=True)))
    (key,) = keys_in(json.dumps({"keys": [jwk | {"kid": "k", "key_ops": ["sign", "verify"]}]}).encode())
    assert not hasattr(key.key, "private_bytes")


async def test_a_token_that_names_no_key_is_taken_where_there_is_one_alone() -> None:
    provider, nameless = Published(), SigningPair("first")
    nameless.private, nameless.name = FIRST.private, None
    async with checking(provider) as checks:
        assert await checks.name(nameless.sign(claims())) == "ada"
        provider.pairs = [FIRST, SigningPair("other")]
    async with checking(provider) as checks:
        assert "too many keys" in await checks.refused(nameless.sign(claims()))


def test_tokens_without_a_signature_where_they_are_wanted() -> None:
    check = TokenCheck(UNSECURED, None, lambda: int(time.time() * 1000))
    assert check(unsigned({"alg": "none"})).name == "ada"
    for token in (FIRST.sign(claims()), unsigned({"alg": "none"}, "AAAA"), unsigned({"alg": "HS256"})):
        with pytest.raises(RefusedTokenError, match="it is signed"):
            check(token)


def config(**changed: str | None) -> BrokerConfig:
    keys = {
        "listeners": "CLIENTS://h:1",
        "listener.security.protocol.map": "CLIENTS:SASL_SSL",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": "https://keys.example",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    } | {name.replace("_", "."): it for name, it in changed.items()}
    return BrokerConfig.embedded({name: it for name, it in keys.items() if it is not None})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, f"jwks.endpoint.url=https://keys.example is not in {URLS}"),
        ({"sasl_oauthbearer_expected_issuer": None}, "expected.issuer: it is not set"),
        ({"sasl_oauthbearer_jwks_endpoint_url": "ftp://keys.example"}, "is no address of http"),
    ],
)
def test_a_node_that_would_believe_others_does_not_start(
    changed: dict[str, str | None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URLS, "https://other.example")
    with pytest.raises(KafkaError, match=words) as refused:
        check_sasl(config(**changed))
    assert refused.value.code == ErrorCode.INVALID_CONFIG


def test_the_package_that_checks_signatures_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URLS, "https://keys.example")
    check_sasl(config())
    monkeypatch.setitem(sys.modules, "penstock.node.assembly.oauth", None)
    with pytest.raises(KafkaError, match=r"needs PyJWT: pip install 'penstock\[oauth\]'"):
        check_sasl(config())


async def test_listeners_with_the_same_provider_have_its_keys_in_common(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URLS, SETTINGS.jwks_url or "")
    asked = list[str]()

    def ask(provider: Provider) -> bytes:
        asked.append(str(provider))
        return b""

    monkeypatch.setattr(Provider, "ask", ask)
    checks = TokenChecks(lambda: 0, lambda: 0.0)
    one = checks.of(SETTINGS)
    other = checks.of(SETTINGS.replace(expected=Expected(ISSUER, ("b",), 0)))
    while not asked:
        await asyncio.sleep(0)
    assert one._keys is other._keys
    await checks.stop()
    assert asked == [SETTINGS.jwks_url]
