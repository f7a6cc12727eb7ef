"""Where a token comes from, by Kafka's keys, and what is asked of the identity provider."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jwt
import pytest
from tests.identity_provider import IdentityProvider, SigningPair

from penstock.client.credentials import TokenCredentials, read_credentials
from penstock.client.oauth.allowed import FILES, URLS
from penstock.protocol.sasl.claims import claims_of
from penstock.protocol.sasl.jaas import OAUTH_MODULE
from penstock.protocol.sasl.mechanism import SaslError

ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
PACKAGE = "org.apache.kafka.common.security.oauthbearer"


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[IdentityProvider]:
    with IdentityProvider().serving() as provider:
        monkeypatch.setenv(URLS, provider.token_url)
        yield provider


def first(properties: dict[str, str], jaas: str = "") -> str:
    """A client's first message."""
    of_jaas = {"sasl.jaas.config": f"{OAUTH_MODULE} required {jaas};"} if jaas else {}
    credentials = read_credentials({"sasl.mechanism": "OAUTHBEARER"} | of_jaas | properties)
    assert isinstance(credentials, TokenCredentials)
    return credentials.client().first().decode()


def user_in(message: str) -> object:
    return claims_of(message.partition("Bearer ")[2].partition("\x01")[0])["sub"]


@pytest.mark.parametrize(
    ("keys", "jaas"),
    [
        (
            {
                "sasl.oauthbearer.client.credentials.client.id": "ada",
                "sasl.oauthbearer.client.credentials.client.secret": "engine",
                "sasl.oauthbearer.scope": "read write",
            },
            "",
        ),
        ({}, 'clientId="ada" clientSecret="engine" scope="read write"'),
        (
            {
                "sasl.oauthbearer.client.id": "ada",
                "sasl.oauthbearer.client.secret": "engine",
                "sasl.oauthbearer.scope": "read write",
                "sasl.oauthbearer.header.urlencode": "true",
                RETRIEVER: f"{PACKAGE}.ClientCredentialsJwtRetriever",
            },
            "",
        ),
    ],
)
def test_a_clients_id_and_secret(provider: IdentityProvider, keys: dict[str, str], jaas: str) -> None:
    assert user_in(first(keys | {ENDPOINT: provider.token_url}, jaas)) == "ada"
    ((path, headers, form),) = provider.asked
    assert (path, form) == ("/token", {"grant_type": "client_credentials", "scope": "read write"})
    assert headers["Accept"] == "application/json"


def test_a_wrong_secret_is_told_once_and_not_shown(provider: IdentityProvider) -> None:
    with pytest.raises(SaslError, match=r"no token to log in with: http.*answers 401: .*invalid_client") as refused:
        first({ENDPOINT: provider.token_url}, 'clientId="ada" clientSecret="hush"')
    assert "hush" not in str(refused.value)
    assert provider.times_asked("/token") == 1


def test_extensions_go_with_the_token(provider: IdentityProvider) -> None:
    jaas = 'clientId="ada" clientSecret="engine" extension_pool="eu"'
    assert first({ENDPOINT: provider.token_url}, jaas).endswith("\x01pool=eu\x01\x01")


@pytest.mark.parametrize("pair", [SigningPair("mine"), SigningPair("mine", "RS256")], ids=["ES256", "RS256"])
@pytest.mark.parametrize("grant", ["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"])
def test_an_assertion_that_the_client_signs(
    provider: IdentityProvider, grant: str, pair: SigningPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, template = tmp_path / "key.pem", tmp_path / "template.json"
    key.write_bytes(pair.private_pem)
    template.write_text('{"header": {"kid": "mine", "alg": "none"}, "payload": {"sub": "template", "jti": 1}}')
    monkeypatch.setenv(FILES, f"{key},{template}")
    provider.pair = pair
    of = "sasl.oauthbearer.assertion."
    keys = {
        ENDPOINT: provider.token_url,
        f"{of}private.key.file": str(key),
        f"{of}algorithm": pair.algorithm,
        f"{of}claim.aud": provider.url,
        f"{of}claim.iss": "ada",
        f"{of}claim.jti.include": "true",
        f"{of}template.file": str(template),
        "sasl.oauthbearer.client.credentials.client.id": "program",
        RETRIEVER: f"{PACKAGE}.{'JwtBearer' if 'bearer' in grant else 'Default'}JwtRetriever",
    }
    assert user_in(first(keys)) == "template", "what is in the file goes before the keys"
    ((_, _, form),) = provider.asked
    said = form.get("assertion") or form["client_assertion"]
    header, claims = jwt.get_unverified_header(said), claims_of(said)
    assert (form["grant_type"], header["alg"], header["kid"]) == (grant, pair.algorithm, "mine")
    assert (claims["iss"], claims["exp"] - claims["iat"], claims["iat"] - claims["nbf"]) == ("ada", 300, 60)
    assert isinstance(claims["jti"], str)
    assert ("client_id" in form) == (grant == "client_credentials")


def test_a_key_that_cannot_sign_is_named(
    provider: IdentityProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "key.pem"
    monkeypatch.setenv(FILES, str(key))
    keys = {ENDPOINT: provider.token_url, "sasl.oauthbearer.assertion.private.key.file": str(key)}
    with pytest.raises(SaslError, match=r"key.pem cannot be read: No such file"):
        first(keys)
    key.write_bytes(SigningPair("k").private_pem)
    with pytest.raises(SaslError, match=r"key.pem cannot sign with RS256"):
        first(keys)
    key.write_text("nothing")
    with pytest.raises(SaslError, match=r"key.pem cannot sign with RS256"):
        first(keys)


def test_an_assertion_and_a_token_in_files(
    provider: IdentityProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "word"
    monkeypatch.setenv(FILES, str(file))
    file.write_text(jwt.encode({"sub": "bob", "aud": provider.url}, provider.pair.private, "ES256") + "\n")
    assert user_in(first({ENDPOINT: provider.token_url, "sasl.oauthbearer.assertion.file": str(file)})) == "bob"
    monkeypatch.setenv(URLS, file.as_uri())
    file.write_text(provider.token(sub="carol") + "\n")
    assert user_in(first({ENDPOINT: file.as_uri()})) == "carol"
    assert user_in(first({ENDPOINT: file.as_uri(), RETRIEVER: f"{PACKAGE}.FileJwtRetriever"})) == "carol"


def test_a_token_without_a_signature_for_brokers_that_try_things_out() -> None:
    message = first({}, 'unsecuredLoginStringClaim_sub="ada" unsecuredLoginListClaim_scope="|a|b"')
    claims = claims_of(message.partition("Bearer ")[2].partition("\x01")[0])
    assert (claims["sub"], claims["scope"]) == ("ada", ["a", "b"])


@pytest.mark.parametrize("answer", [b"", b"[]", b'{"access_token": 7}', b'{"access_token": " "}', b"[" * 100_000])
def test_an_answer_without_a_token(provider: IdentityProvider, answer: bytes) -> None:
    provider.answer = 200, answer
    with pytest.raises(SaslError, match="gives no access_token"):
        first({ENDPOINT: provider.token_url}, 'clientId="ada" clientSecret="engine"')


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({}, f"needs {ENDPOINT}"),
        ({ENDPOINT: "https://evil.example/token"}, f"is not in {URLS}"),
        ({ENDPOINT: "gopher://x"}, "is no address"),
        ({ENDPOINT: "https://good.example"}, "client.secret, or sasl.oauthbearer.assertion.private.key.file"),
        ({RETRIEVER: "org.example.Retriever"}, "classes of Java's cannot be loaded, but for"),
        ({"sasl.login.callback.handler.class": "org.example.Handler"}, "classes of Java's cannot be loaded, but for"),
        ({"sasl.login.refresh.window.factor": "often", ENDPOINT: "file:///good"}, "sasl.login.refresh.window.factor"),
        ({ENDPOINT: "file:///good", RETRIEVER: f"{PACKAGE}.JwtBearerJwtRetriever"}, "does not go with"),
        ({ENDPOINT: "https://good.example", RETRIEVER: f"{PACKAGE}.FileJwtRetriever"}, "does not go with"),
        (
            {ENDPOINT: "https://good.example", "sasl.oauthbearer.assertion.private.key.file": "/etc/shadow"},
            f"is not in {FILES}",
        ),
        ({"sasl.jaas.config": f'{OAUTH_MODULE} required clientSecret="hush"'}, "no semicolon"),
    ],
)
def test_what_is_missing_or_not_allowed_is_named(
    keys: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URLS, "https://good.example,file:///good")
    with pytest.raises(ValueError, match=words) as refused:
        read_credentials({"sasl.mechanism": "OAUTHBEARER"} | keys)
    assert "hush" not in str(refused.value)
