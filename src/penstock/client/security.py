"""How a client comes to a listener that does not speak in the clear: `security.protocol`, and the keys behind it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from random import SystemRandom
from typing import TYPE_CHECKING, Final

from penstock.client.errors import UnusableSettingsError

if TYPE_CHECKING:
    import asyncio
    import ssl
    from random import Random

    from penstock.client.credentials import Credentials, TokenCredentials
    from penstock.client.login import Asked, Login, Steps
    from penstock.protocol.address import Address
    from penstock.tls.keys import Keys
    from penstock.tls.opening import Opening

logger = logging.getLogger(__name__)

PLAINTEXT: Final = "PLAINTEXT"
PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
WITH_TLS: Final = ("SSL", "SASL_SSL")
WITH_SASL: Final = ("SASL_PLAINTEXT", "SASL_SSL")
PREFIXES: Final = ("ssl.", "sasl.")
KNOWN: Final = (
    "sasl.client.callback.handler.class",
    "sasl.jaas.config",
    "sasl.kerberos.service.name",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.oauthbearer.assertion.algorithm",
    "sasl.oauthbearer.assertion.claim.aud",
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.claim.jti.include",
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    "sasl.oauthbearer.assertion.claim.sub",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.template.file",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.jwt.validator.class",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.password",
    "sasl.username",
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.engine.factory.class",
    "ssl.key.password",
    "ssl.keymanager.algorithm",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
"""Some of them are for Java alone, and change nothing."""


class Security:
    """The keys that are set, as text. They are read when the first connection needs them, and shown nowhere."""

    __slots__ = ("_credentials", "_keys", "properties")

    def __init__(
        self, properties: Mapping[str, str] | None = None, credentials: Credentials | TokenCredentials | None = None
    ) -> None:
        """Credentials stand in keys, or are given. ValueError for a key that is not known."""
        self.properties: dict[str, str] = dict(properties or {})
        self._keys: Keys | None = None
        self._credentials = credentials
        for key in self.properties:
            if key not in KNOWN:
                near = get_close_matches(key, KNOWN, n=1)
                raise ValueError(
                    f"{key} is not a setting of this client" + (f"; did you mean {near[0]}?" if near else "")
                )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Security) and self.properties == other.properties

    def __hash__(self) -> int:
        return hash(frozenset(self.properties))

    def __repr__(self) -> str:
        return f"Security({', '.join(sorted(self.properties))})"

    def __reduce__(self) -> tuple[type[Security], tuple[dict[str, str]]]:
        return Security, (self.properties,)

    def context(self) -> ssl.SSLContext:
        """By the files as they are now, if these can be used: else as they were. UnusableSettingsError."""
        from penstock.tls.contexts import asking_context
        from penstock.tls.errors import TlsConfigError
        from penstock.tls.keys import Keys

        keys = self._keys
        try:
            if keys is None:
                keys = self._keys = Keys(lambda: self.properties, asking_context)
            else:
                keys.refresh()
        except TlsConfigError as error:
            if keys is None:
                raise UnusableSettingsError(str(error)) from error
            logger.warning("keys and certificates stay as they were: %s", error)
        return keys.context

    def opening(self, protocol: asyncio.BufferedProtocol, host: str, fail: Callable[[str], object]) -> Opening:
        """Of a connection over TLS. UnusableSettingsError."""
        from penstock.tls.opening import Opening

        return Opening(protocol, self.context(), host, fail)

    @property
    def credentials(self) -> Credentials | TokenCredentials:
        """As whom to log in. ValueError."""
        from penstock.client.credentials import read_credentials

        if self._credentials is None:
            self._credentials = read_credentials(self.properties)
        return self._credentials

    def check_credentials(self) -> None:
        """ValueError names key and cure, and no password."""
        _ = self.credentials

    def steps(self, address: Address) -> Steps:
        """Those of one log-in. ValueError."""
        from penstock.client.login import steps

        return steps(address, self.credentials, SystemRandom())

    def log_in_on(self, connection: Asked, random: Random) -> Login:
        """Logs in on a connection that is open. ValueError."""
        from penstock.client.login import Login

        return Login(connection, self.credentials, random)
