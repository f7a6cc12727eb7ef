"""Where a client's token comes from, by Kafka's keys (KIP-768, KIP-1139, KIP-1258).

| sasl.oauthbearer.jwt.retriever.class | the token is                                                                 |
| ------------------------------------ | ---------------------------------------------------------------------------- |
| DefaultJwtRetriever                  | in the file of a `file:` address; else as the next                           |
| ClientCredentialsJwtRetriever        | given for a client's id and secret, or for its assertion                     |
| JwtBearerJwtRetriever                | given in exchange for an assertion                                           |
| FileJwtRetriever                     | in the file of a `file:` address                                             |

Without an address, JAAS options `unsecuredLogin…` make a token without a signature, for brokers that try things out.
"""

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from penstock.client.oauth import assertion
from penstock.client.oauth.allowed import allowed_file, allowed_url
from penstock.client.oauth.provider import CONNECT_S, READ_S, Provider, ProviderError, basic
from penstock.client.oauth.tokens import Renewal, TokenSource
from penstock.metadata.configs.broker_security import SECURITY_CONFIGS
from penstock.metadata.configs.definitions import parse_value
from penstock.protocol.secret import Secret, SecretTexts

PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
RETRIEVERS: Final = (
    "DefaultJwtRetriever",
    "ClientCredentialsJwtRetriever",
    "JwtBearerJwtRetriever",
    "FileJwtRetriever",
)
RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"
ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
SCOPE: Final = "sasl.oauthbearer.scope"
KEY_FILE: Final = "sasl.oauthbearer.assertion.private.key.file"
FINISHED: Final = "sasl.oauthbearer.assertion.file"
OTHER_NAMES: Final[Mapping[str, tuple[str, str]]] = {
    CLIENT_ID: ("sasl.oauthbearer.client.id", "clientId"),
    CLIENT_SECRET: ("sasl.oauthbearer.client.secret", "clientSecret"),
    SCOPE: (SCOPE, "scope"),
}
"""The names that librdkafka has for a key, and Kafka's older JAAS options."""
EXTENSION: Final = "extension_"
UNSECURED: Final = "unsecuredLogin"
GRANTS: Final = {"client": "client_credentials", "bearer": "urn:ietf:params:oauth:grant-type:jwt-bearer"}
ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class _Keys:
    def __init__(self, properties: Mapping[str, str], options: Mapping[str, Secret]) -> None:
        self.properties = properties
        self.options = {name: it.text for name, it in options.items()}

    def text(self, key: str) -> str:
        """Empty for none."""
        other, option = OTHER_NAMES.get(key, (key, ""))
        found = self.properties.get(key) or self.properties.get(other) or self.options.get(option)
        return (found or "").strip()

    def value(self, key: str) -> Any:
        definition, found = SECURITY_CONFIGS[key], self.properties.get(key)
        return parse_value(definition, definition.default if found is None else found)

    def seconds(self, key: str, default: float) -> float:
        found = self.value(key)
        return default if found is None else max(found, 1) / 1000


def token_source(properties: Mapping[str, str], options: Mapping[str, Secret]) -> TokenSource:
    """`options` are those of JAAS. ValueError names key and cure, and no secret."""
    keys = _Keys(properties, options)
    return TokenSource(_retrieve(keys), _renewal(keys))


def extensions_in(options: Mapping[str, Secret]) -> dict[str, str]:
    """What is to be sent with the token."""
    return {name.removeprefix(EXTENSION): it.text for name, it in options.items() if name.startswith(EXTENSION)}


def _retrieve(keys: _Keys) -> Callable[[], str]:
    retriever, url = str(keys.value(RETRIEVER)).removeprefix(PACKAGE), keys.text(ENDPOINT)
    if retriever not in RETRIEVERS:
        known = ", ".join(PACKAGE + one for one in RETRIEVERS)
        raise ValueError(f"{RETRIEVER}={retriever}: classes of Java's cannot be loaded, but for {known}")
    if not url:
        if f"{UNSECURED}StringClaim_sub" in keys.options and retriever == RETRIEVERS[0]:
            return _unsecured(keys.options)
        raise ValueError(f"OAUTHBEARER needs {ENDPOINT}: where the identity provider gives tokens")
    parts = allowed_url(ENDPOINT, url)
    if (parts.scheme == "file") != (retriever == "FileJwtRetriever") and retriever != RETRIEVERS[0]:
        raise ValueError(f"{ENDPOINT}={url} does not go with {RETRIEVER}={PACKAGE}{retriever}")
    tls = SecretTexts({name: it for name, it in keys.options.items() if name.startswith("ssl.")})
    connect_s = keys.seconds("sasl.login.connect.timeout.ms", CONNECT_S)
    provider = Provider(parts, tls, connect_s, keys.seconds("sasl.login.read.timeout.ms", READ_S))
    if parts.scheme == "file":
        return lambda: provider.ask().decode("ascii", "replace")
    return _asking(provider, keys, retriever == "JwtBearerJwtRetriever")


def _asking(provider: Provider, keys: _Keys, is_bearer: bool) -> Callable[[], str]:
    scope, name = keys.text(SCOPE), keys.text(CLIENT_ID)
    if is_bearer or keys.text(FINISHED) or keys.text(KEY_FILE):
        assert_it = _assertion(keys)

        def exchanged() -> str:
            form = {"grant_type": GRANTS["bearer"], "assertion": assert_it()} if is_bearer else _client(name, assert_it)
            return _token_in(provider, provider.ask(urlencode(form | ({"scope": scope} if scope else {}))))

        return exchanged
    secret = keys.text(CLIENT_SECRET)
    if not name or not secret:
        raise ValueError(f"OAUTHBEARER needs {CLIENT_ID} and {CLIENT_SECRET}, or {KEY_FILE}")
    is_encoded = keys.value("sasl.oauthbearer.header.urlencode")
    header = basic(quote_plus(name), quote_plus(secret)) if is_encoded else basic(name, secret)
    form = urlencode({"grant_type": GRANTS["client"]} | ({"scope": scope} if scope else {}))
    return lambda: _token_in(provider, provider.ask(form, {"Authorization": header}))


def _client(name: str, assert_it: Callable[[], str]) -> dict[str, str]:
    form = {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assert_it(), "grant_type": GRANTS["client"]}
    return form | ({"client_id": name} if name else {})


def _assertion(keys: _Keys) -> Callable[[], str]:
    if finished := keys.text(FINISHED):
        return assertion.from_file(allowed_file(FINISHED, finished))
    key_file, template = keys.text(KEY_FILE), keys.text("sasl.oauthbearer.assertion.template.file")
    if not key_file:
        raise ValueError(f"an assertion needs {KEY_FILE}, or {FINISHED}")
    passphrase = keys.text("sasl.oauthbearer.assertion.private.key.passphrase")
    claims = {
        "aud": keys.text("sasl.oauthbearer.assertion.claim.aud"),
        "iss": keys.text("sasl.oauthbearer.assertion.claim.iss"),
        "sub": keys.text("sasl.oauthbearer.assertion.claim.sub"),
    }
    return assertion.signed(
        assertion.Assertion(
            keys.value("sasl.oauthbearer.assertion.algorithm"),
            allowed_file(KEY_FILE, key_file),
            Secret(passphrase) if passphrase else None,
            allowed_file("sasl.oauthbearer.assertion.template.file", template) if template else None,
            {name: it for name, it in claims.items() if it},
            keys.value("sasl.oauthbearer.assertion.claim.exp.seconds"),
            keys.value("sasl.oauthbearer.assertion.claim.nbf.seconds"),
            keys.value("sasl.oauthbearer.assertion.claim.jti.include"),
        )
    )


def _token_in(provider: Provider, answer: bytes) -> str:
    try:
        found = json.loads(answer)
        token = found.get("access_token") or found.get("id_token")
    except (ValueError, AttributeError, RecursionError):
        token = None
    if not isinstance(token, str) or not token.strip():
        raise ProviderError(f"{provider} gives no access_token", is_final=True)
    return token


def _renewal(keys: _Keys) -> Renewal:
    return Renewal(
        keys.value("sasl.login.refresh.window.factor"),
        keys.value("sasl.login.refresh.window.jitter"),
        keys.value("sasl.login.refresh.buffer.seconds"),
        keys.value("sasl.login.refresh.min.period.seconds"),
        keys.seconds("sasl.login.retry.backoff.ms", 0.1),
        keys.seconds("sasl.login.retry.backoff.max.ms", 10),
    )


def _unsecured(options: Mapping[str, str]) -> Callable[[], str]:
    """As Kafka's OAuthBearerUnsecuredLoginCallbackHandler. ValueError."""
    kinds: tuple[tuple[str, Callable[[str], object]], ...] = (
        ("StringClaim_", str),
        ("NumberClaim_", float),
        ("ListClaim_", lambda text: text[1:].split(text[:1])),
    )
    claims = {
        name.removeprefix(UNSECURED + kind): read(it)
        for kind, read in kinds
        for name, it in options.items()
        if name.startswith(UNSECURED + kind)
    }
    lifetime_s = int(options.get(f"{UNSECURED}LifetimeSeconds", "3600"))

    def make() -> str:
        now_s = time.time()
        return f"{_part({'alg': 'none'})}.{_part(claims | {'iat': now_s, 'exp': now_s + lifetime_s})}."

    return make


def _part(content: Mapping[str, object]) -> str:
    return urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()
