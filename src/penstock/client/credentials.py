"""As whom a client logs in: by Kafka's keys, or by those of librdkafka.

    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="ada" password="…";

or `sasl.username` and `sasl.password` in place of the second. With OAUTHBEARER an identity provider says as whom.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.client.daemon_thread import DaemonThread
from penstock.protocol.sasl.jaas import JaasError, credentials_of, parse_jaas
from penstock.protocol.sasl.mechanism import GSSAPI, OAUTHBEARER, SaslError, why_not_served
from penstock.protocol.sasl.oauthbearer import OAuthClient
from penstock.protocol.secret import Secret
from penstock.protocol.value import Value

if TYPE_CHECKING:
    from penstock.client.oauth.tokens import TokenSource

MECHANISM: Final = "sasl.mechanism"
JAAS: Final = "sasl.jaas.config"
USER: Final = "sasl.username"
PASSWORD: Final = "sasl.password"
CLASSES: Final = ("sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class")


class Credentials(Value):
    mechanism: str
    user: str
    password: Secret
    by_token: bool = False
    """Whether the user is the id of a delegation token, and the password its HMAC."""


class TokenCredentials:
    """As whom a client logs in: whoever the identity provider says that it is. `extensions` go with the token."""

    mechanism: Final = OAUTHBEARER
    user: Final = "the identity provider's token"

    def __init__(self, source: TokenSource, extensions: Mapping[str, str]) -> None:
        self._source = source
        self._extensions = extensions
        self.thread = DaemonThread("identity provider")
        """In which the provider is asked: it may hang."""

    def client(self) -> OAuthClient:
        """For one log-in. It may take as long as the provider does. Raises SaslError."""
        try:
            token = self._source.token()
        except SaslError as error:
            raise SaslError(f"there is no token to log in with: {error}") from None
        return OAuthClient(token, self._extensions)


def read_credentials(properties: Mapping[str, str]) -> Credentials | TokenCredentials:
    """ValueError names key and cure, and no password."""
    mechanism = (properties.get(MECHANISM) or properties.get("sasl.mechanisms") or GSSAPI).strip()
    problem = why_not_served(mechanism)
    if problem is not None:
        is_default = MECHANISM not in properties and "sasl.mechanisms" not in properties
        raise ValueError(f"{MECHANISM} is not set, and {problem}" if is_default else f"{MECHANISM}: {problem}")
    if mechanism == OAUTHBEARER:
        return _by_token(properties)
    for key in CLASSES:
        if properties.get(key):
            raise ValueError(f"{key}: classes of Java's cannot be loaded; remove the key")
    if JAAS in properties:
        try:
            return Credentials(mechanism, *credentials_of(properties[JAAS], mechanism))
        except JaasError as error:
            raise ValueError(f"{JAAS}: {error}") from None
    user, password = properties.get(USER), properties.get(PASSWORD)
    if not user or password is None:
        raise ValueError(f"{mechanism} needs {JAAS}, or {USER} and {PASSWORD}")
    return Credentials(mechanism, user, Secret(password))


def _by_token(properties: Mapping[str, str]) -> TokenCredentials:
    from penstock.client.oauth.credentials import extensions_in, token_source
    from penstock.metadata.configs.oauth import CLASSES as KNOWN

    for key in (*CLASSES, "sasl.oauthbearer.jwt.validator.class"):
        found = properties.get(key)
        if found and found not in KNOWN[key]:
            raise ValueError(f"{key}: classes of Java's cannot be loaded, but for {', '.join(KNOWN[key])}")
    try:
        options = parse_jaas(properties[JAAS], OAUTHBEARER).options if JAAS in properties else {}
    except JaasError as error:
        raise ValueError(f"{JAAS}: {error}") from None
    return TokenCredentials(token_source(properties, options), extensions_in(options))
