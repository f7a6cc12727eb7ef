"""What a listener with OAUTHBEARER asks of tokens, by Kafka's keys (KIP-768, KIP-1139).

Signatures are checked by the keys behind `sasl.oauthbearer.jwks.endpoint.url`. Tokens without one, for trying things
out, are taken where Kafka's class for that is named, and nowhere else.
"""

from collections.abc import Mapping
from typing import Final

from penstock.metadata.configs.definitions import ConfigError, ConfigValue
from penstock.metadata.configs.sasl_keys import Text, key_name, value_of
from penstock.protocol.address import is_number
from penstock.protocol.sasl.claims import Expected
from penstock.protocol.sasl.jaas import LoginModule
from penstock.protocol.sasl.mechanism import OAUTHBEARER
from penstock.protocol.secret import SecretTexts
from penstock.protocol.value import Value

PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
VALIDATORS: Final = (
    f"{PACKAGE}.OAuthBearerValidatorCallbackHandler",
    f"{PACKAGE}.secured.OAuthBearerValidatorCallbackHandler",
)
UNSECURED: Final = f"{PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
CLASSES: Final[Mapping[str, tuple[str, ...]]] = {
    "sasl.server.callback.handler.class": (*VALIDATORS, UNSECURED),
    "sasl.client.callback.handler.class": (f"{PACKAGE}.internals.OAuthBearerSaslClientCallbackHandler",),
    "sasl.login.callback.handler.class": (
        f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
        f"{PACKAGE}.secured.OAuthBearerLoginCallbackHandler",
        f"{PACKAGE}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
    ),
    "sasl.login.class": (f"{PACKAGE}.internals.OAuthBearerRefreshingLogin",),
    "sasl.oauthbearer.jwt.validator.class": (f"{PACKAGE}.DefaultJwtValidator", f"{PACKAGE}.BrokerJwtValidator"),
}
"""Classes of Java's by whose names something is meant that is there."""
JWKS: Final = "sasl.oauthbearer.jwks.endpoint.url"
ISSUER: Final = "sasl.oauthbearer.expected.issuer"
AUDIENCE: Final = "sasl.oauthbearer.expected.audience"
ANY_ISSUER: Final = "sasl.oauthbearer.allow.unverified.issuer"
ANY_AUDIENCE: Final = "sasl.oauthbearer.allow.unverified.audience"


class ListenerOAuth(Value):
    expected: Expected
    jwks_url: str | None
    """None: signatures are not looked at, and there has to be none."""
    tls: Mapping[str, str]
    """Keys of `ssl.` for that address, from the JAAS options."""
    refresh_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int


def oauth_of(listener: str, module: LoginModule | None, text: Text) -> ListenerOAuth:
    """`module` has the JAAS options of the listener. Raises ConfigError."""

    def value(key: str) -> ConfigValue:
        return value_of(key, listener, OAUTHBEARER, text)

    handler, url = value("sasl.server.callback.handler.class"), str(value(JWKS) or "").strip() or None
    options = {} if module is None else {name: it.text for name, it in module.options.items()}
    if handler == UNSECURED:
        if url is not None:
            name = key_name(JWKS, listener, OAUTHBEARER, text)
            raise ConfigError(name, url, f"nothing, as {UNSECURED} checks no signature: remove one of them")
        expected = _unsecured(listener, options)
    elif url is None:
        allowed = f"where the identity provider's keys are, by which signatures of tokens on {listener} are checked"
        raise ConfigError(JWKS, None, allowed)
    else:
        expected = _expected(listener, text)
    return ListenerOAuth(
        expected,
        url,
        SecretTexts({name: it for name, it in options.items() if name.startswith("ssl.")}),
        max(int(str(value("sasl.oauthbearer.jwks.endpoint.refresh.ms"))), 1),
        max(int(str(value("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"))), 1),
        max(int(str(value("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"))), 1),
    )


def _expected(listener: str, text: Text) -> Expected:
    def value(key: str) -> ConfigValue:
        return value_of(key, listener, OAUTHBEARER, text)

    issuer, raw = str(value(ISSUER) or "").strip() or None, value(AUDIENCE)
    audiences = tuple(one for one in raw if one) if isinstance(raw, tuple) else ()
    if issuer is None and value(ANY_ISSUER) is not True:
        allowed = f"the issuer whose tokens are taken on {listener}, or {ANY_ISSUER}=true to take those of any"
        raise ConfigError(ISSUER, None, allowed)
    if not audiences and value(ANY_AUDIENCE) is not True:
        allowed = f"for whom tokens on {listener} have to be, or {ANY_AUDIENCE}=true to take those for others, too"
        raise ConfigError(AUDIENCE, None, allowed)
    return Expected(
        issuer,
        audiences,
        max(int(str(value("sasl.oauthbearer.clock.skew.seconds"))), 0),
        str(value("sasl.oauthbearer.sub.claim.name")).strip() or "sub",
        str(value("sasl.oauthbearer.scope.claim.name")).strip() or "scope",
    )


def _unsecured(listener: str, options: Mapping[str, str]) -> Expected:
    """By the JAAS options that Kafka's development validator has."""
    skew_ms = options.get("unsecuredValidatorAllowableClockSkewMs", "").strip() or "0"
    if not is_number(skew_ms):
        raise ConfigError(f"unsecuredValidatorAllowableClockSkewMs of {listener}", skew_ms, "milliseconds")
    return Expected(
        None,
        (),
        -(-int(skew_ms) // 1000),
        options.get("unsecuredValidatorPrincipalClaimName", "").strip() or "sub",
        options.get("unsecuredValidatorScopeClaimName", "").strip() or "scope",
        tuple(options.get("unsecuredValidatorRequiredScope", "").split()),
        needs_issue_time=False,
    )


def check_classes(mechanism: str, key: str, name: str, found: str, listener: str) -> None:
    """Java's cannot be loaded, and passing over them would let others in than they do. Raises ConfigError."""
    if mechanism == OAUTHBEARER and found in CLASSES.get(key, ()):
        return
    known = f" or take {CLASSES[key][0]}" if mechanism == OAUTHBEARER and key in CLASSES else ""
    raise ConfigError(name, found, f"nothing: {listener} cannot have a class of Java's, so remove the key{known}")
