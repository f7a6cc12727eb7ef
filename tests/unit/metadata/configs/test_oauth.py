"""All that a listener with tokens is told by its keys: each key alone, its default, and both sides of its limit."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.oauth import UNSECURED, ListenerOAuth
from penstock.metadata.configs.sasl import TO_CONTROLLERS, login_on, sasl_of
from penstock.protocol.sasl.claims import Expected
from penstock.protocol.sasl.jaas import OAUTH_MODULE

OF_C = "listener.name.c.oauthbearer."
KEYS = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": " https://keys.example ",
    "sasl.oauthbearer.expected.issuer": " issuer ",
    "sasl.oauthbearer.expected.audience": "us",
}
DEFAULT = ListenerOAuth(
    Expected("issuer", ("us",), 30, "sub", "scope"), "https://keys.example", {}, 3_600_000, 100, 10_000
)


def oauth(**keys: str) -> ListenerOAuth:
    found = sasl_of("C", (KEYS | keys).get).oauth
    assert found is not None
    return found


OWN = f"{OF_C}sasl.oauthbearer."
TIMES = ("jwks.endpoint.refresh.ms", "jwks.endpoint.retry.backoff.ms", "jwks.endpoint.retry.backoff.max.ms")
NAMES = ("refresh_ms", "retry_backoff_ms", "retry_backoff_max_ms")


@pytest.mark.parametrize(
    ("key", "text", "changes"),
    [
        *[(key, text, {name: ms}) for key, name in zip(TIMES, NAMES, strict=True) for text, ms in (("7", 7), ("1", 1))],
        ("clock.skew.seconds", "0", {"expected": DEFAULT.expected.replace(skew_s=0)}),
        ("clock.skew.seconds", "1", {"expected": DEFAULT.expected.replace(skew_s=1)}),
        ("sub.claim.name", " upn ", {"expected": DEFAULT.expected.replace(name_claim="upn")}),
        ("sub.claim.name", " ", {}),
        ("scope.claim.name", " scp ", {"expected": DEFAULT.expected.replace(scope_claim="scp")}),
        ("scope.claim.name", " ", {}),
        ("expected.audience", "us,,them", {"expected": DEFAULT.expected.replace(audiences=("us", "them"))}),
    ],
)
def test_each_key_alone(key: str, text: str, changes: dict[str, Any]) -> None:
    assert oauth() == DEFAULT
    assert oauth(**{f"{OWN}{key}": text}) == DEFAULT.replace(**changes)


UNSIGNED = Expected(None, (), 0, "sub", "scope", needs_issue_time=False)


@pytest.mark.parametrize(
    ("option", "text", "expected"),
    [
        ("AllowableClockSkewMs", "0", UNSIGNED),
        ("AllowableClockSkewMs", " ", UNSIGNED),
        ("AllowableClockSkewMs", "1", UNSIGNED.replace(skew_s=1)),
        ("AllowableClockSkewMs", "1000", UNSIGNED.replace(skew_s=1)),
        ("AllowableClockSkewMs", "1001", UNSIGNED.replace(skew_s=2)),
        ("AllowableClockSkewMs", "30000", UNSIGNED.replace(skew_s=30)),
        ("PrincipalClaimName", " upn ", UNSIGNED.replace(name_claim="upn")),
        ("PrincipalClaimName", " ", UNSIGNED),
        ("ScopeClaimName", " scp ", UNSIGNED.replace(scope_claim="scp")),
        ("ScopeClaimName", " ", UNSIGNED),
        ("RequiredScope", " a b ", UNSIGNED.replace(scopes=("a", "b"))),
        ("RequiredScope", " ", UNSIGNED),
    ],
)
def test_each_option_of_tokens_without_a_signature(option: str, text: str, expected: Expected) -> None:
    keys = {
        f"{OF_C}sasl.server.callback.handler.class": UNSECURED,
        f"{OF_C}sasl.jaas.config": f'{OAUTH_MODULE} required unsecuredValidator{option}="{text}";',
        "sasl.oauthbearer.jwks.endpoint.url": " ",
    }
    assert oauth(**keys) == DEFAULT.replace(expected=expected, jwks_url=None)


@pytest.mark.parametrize("text", ["x", "-1", "1.5"])
def test_a_skew_is_a_number(text: str) -> None:
    options = f'unsecuredValidatorAllowableClockSkewMs="{text}"'
    keys = {
        f"{OF_C}sasl.server.callback.handler.class": UNSECURED,
        f"{OF_C}sasl.jaas.config": f"{OAUTH_MODULE} required {options};",
        "sasl.oauthbearer.jwks.endpoint.url": "",
    }
    with pytest.raises(ConfigError, match=r"unsecuredValidatorAllowableClockSkewMs of C: .* milliseconds"):
        oauth(**keys)


def test_who_logs_in_has_the_keys_of_clients_alone() -> None:
    keys = {
        TO_CONTROLLERS: "OAUTHBEARER",
        f"{OF_C}sasl.jaas.config": f'{OAUTH_MODULE} required clientId="node" clientSecret="hush";',
        "sasl.login.connect.timeout.ms": "500",
        "sasl.oauthbearer.token.endpoint.url": "https://any.example",
        f"{OWN}token.endpoint.url": "https://tokens.example",
        "sasl.oauthbearer.expected.issuer": "issuer",
        "ssl.keystore.location": "/key",
        "sasl.server.max.receive.size": "7",
    }
    assert login_on("C", TO_CONTROLLERS, keys.get).properties == {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": keys[f"{OF_C}sasl.jaas.config"],
        "sasl.login.connect.timeout.ms": "500",
        "sasl.oauthbearer.token.endpoint.url": "https://tokens.example",
        "sasl.oauthbearer.expected.issuer": "issuer",
    }
