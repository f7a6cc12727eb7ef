"""How clients log in on the listeners of a node, and the node on those of others, by Kafka's keys.

`sasl.jaas.config` counts with listener and mechanism alone, as in Kafka.
"""

from collections.abc import Mapping

from penstock.metadata.configs.broker_security import SECURITY_CONFIGS
from penstock.metadata.configs.definitions import ConfigError, ConfigValue
from penstock.metadata.configs.listener_keys import PREFIX
from penstock.metadata.configs.oauth import ListenerOAuth, check_classes, oauth_of
from penstock.metadata.configs.sasl_keys import Text, key_name, value_of
from penstock.protocol.sasl.jaas import MODULES, JaasError, LoginModule, credentials_of, parse_jaas
from penstock.protocol.sasl.mechanism import OAUTHBEARER, PLAIN, SERVED, why_not_served
from penstock.protocol.secret import Secret, SecretTexts
from penstock.protocol.value import HIDDEN, Value

JAAS = "sasl.jaas.config"
ENABLED = "sasl.enabled.mechanisms"
REAUTH = "connections.max.reauth.ms"
BETWEEN_BROKERS = "sasl.mechanism.inter.broker.protocol"
TO_CONTROLLERS = "sasl.mechanism.controller.protocol"
CLASSES = (
    "sasl.server.callback.handler.class",
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.oauthbearer.jwt.validator.class",
)
OF_CLIENTS = ("sasl.oauthbearer.", "sasl.login.")
"""What begins so says how a node that logs in with OAUTHBEARER comes by its token."""


class ListenerSasl(Value):
    """`users` are those of PLAIN; `lifetimes_ms` says how long a log-in holds, by mechanism, 0 for ever.

    `oauth` says what a token has to be, with OAUTHBEARER alone.
    """

    mechanisms: tuple[str, ...]
    users: Mapping[str, Secret]
    lifetimes_ms: Mapping[str, int]
    oauth: ListenerOAuth | None


class NodeLogin(Value):
    """As whom a node logs in on a listener of another node.

    With OAUTHBEARER `properties` say so, as those of a client do.
    """

    mechanism: str
    user: str
    password: Secret
    by_token: bool
    properties: Mapping[str, str]


def sasl_of(listener: str, text: Text) -> ListenerSasl:
    """Raises ConfigError that names key and cure, and no password."""
    _check_classes(listener, text)
    mechanisms = tuple(dict.fromkeys(str(one).strip() for one in _list(value_of(ENABLED, listener, "", text))))
    name, shown = key_name(ENABLED, listener, "", text), ",".join(mechanisms)
    if not mechanisms:
        raise ConfigError(name, shown, f"some of {', '.join(SERVED)}: nobody could log in on {listener}")
    for mechanism in mechanisms:
        problem = why_not_served(mechanism)
        if problem is not None:
            raise ConfigError(name, shown, f"what can be served on {listener}, and {problem}")
    users = _module(listener, PLAIN, text).users if PLAIN in mechanisms else {}
    if PLAIN in mechanisms and not users:
        raise ConfigError(jaas_key(listener, PLAIN), HIDDEN, 'users of PLAIN in it, as in user_ada="<password>"')
    oauth = oauth_of(listener, _own_module(listener, text), text) if OAUTHBEARER in mechanisms else None
    return ListenerSasl(mechanisms, users, {one: _lifetime_ms(listener, one, text) for one in mechanisms}, oauth)


def login_on(listener: str, key: str, text: Text) -> NodeLogin:
    """`key` says with which mechanism. Raises ConfigError."""
    mechanism = str(value_of(key, "", "", text))
    problem = why_not_served(mechanism)
    if problem is not None:
        raise ConfigError(key, mechanism, f"a mechanism for the listener {listener}, and {problem}")
    if mechanism == OAUTHBEARER:
        return NodeLogin(mechanism, "", Secret(""), False, _properties(listener, text))
    _module(listener, mechanism, text)
    name = jaas_key(listener, mechanism)
    try:
        return NodeLogin(mechanism, *credentials_of(text(name) or "", mechanism), {})
    except JaasError as error:
        raise ConfigError(name, HIDDEN, f"as whom this node logs in on {listener}; {error}") from None


def _properties(listener: str, text: Text) -> dict[str, str]:
    """The keys that count, as a client has them."""
    _check_classes(listener, text)
    keys = [key for key in SECURITY_CONFIGS if key.startswith(OF_CLIENTS) and key not in CLASSES]
    found = {key: text(key_name(key, listener, OAUTHBEARER, text)) for key in keys}
    found |= {"sasl.mechanism": OAUTHBEARER, JAAS: text(jaas_key(listener, OAUTHBEARER))}
    return SecretTexts({key: it for key, it in found.items() if it is not None})


def jaas_key(listener: str, mechanism: str) -> str:
    return f"{PREFIX}{listener.lower()}.{mechanism.lower()}.{JAAS}"


def _module(listener: str, mechanism: str, text: Text) -> LoginModule:
    name = jaas_key(listener, mechanism)
    found = text(name)
    if found is None:
        allowed = f'"{MODULES[mechanism]} required …;", as {mechanism} on {listener} needs it here: files of JAAS'
        raise ConfigError(name, None, f"{allowed} (java.security.auth.login.config) and {JAAS} alone are not read")
    try:
        return parse_jaas(found, mechanism)
    except JaasError as error:
        raise ConfigError(name, HIDDEN, f"a login module of Java's; {error}") from None


def _own_module(listener: str, text: Text) -> LoginModule | None:
    """That of OAUTHBEARER, which may do without."""
    return None if text(jaas_key(listener, OAUTHBEARER)) is None else _module(listener, OAUTHBEARER, text)


def _lifetime_ms(listener: str, mechanism: str, text: Text) -> int:
    found = value_of(REAUTH, listener, mechanism, text)
    assert isinstance(found, int)
    return found


def _check_classes(listener: str, text: Text) -> None:
    for key in CLASSES:
        for mechanism in ("", *SERVED):
            name = key_name(key, listener, mechanism, text)
            found = text(name)
            if found and found != SECURITY_CONFIGS[key].default:
                check_classes(mechanism, key, name, found, listener)


def _list(value: ConfigValue) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()
