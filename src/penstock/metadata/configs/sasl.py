"""How clients log in on the listeners of a node, and the node on those of others, by Kafka's keys.

`listener.name.<listener>.<mechanism>.<key>` goes before `listener.name.<listener>.<key>`, and that before `<key>`.
`sasl.jaas.config` counts with listener and mechanism alone, as in Kafka.
"""

from collections.abc import Callable, Iterator, Mapping

from penstock.metadata.configs.broker_security import SECURITY_CONFIGS
from penstock.metadata.configs.definitions import ConfigError, ConfigValue, parse_value
from penstock.metadata.configs.listener_keys import PREFIX
from penstock.protocol.sasl.jaas import MODULES, JaasError, LoginModule, credentials_of, parse_jaas
from penstock.protocol.sasl.mechanism import PLAIN, SERVED, why_not_served
from penstock.protocol.secret import Secret
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
)
Text = Callable[[str], str | None]
"""The text of a key that is set in the file; None for none."""


class ListenerSasl(Value):
    """`users` are those of PLAIN; `lifetimes_ms` says how long a log-in holds, by mechanism, 0 for ever."""

    mechanisms: tuple[str, ...]
    users: Mapping[str, Secret]
    lifetimes_ms: Mapping[str, int]


class NodeLogin(Value):
    """As whom a node logs in on a listener of another node."""

    mechanism: str
    user: str
    password: Secret


def sasl_of(listener: str, text: Text) -> ListenerSasl:
    """Raises ConfigError that names key and cure, and no password."""
    _check_classes(listener, text)
    mechanisms = tuple(dict.fromkeys(str(one).strip() for one in _list(_value(ENABLED, listener, "", text))))
    name, shown = _name(ENABLED, listener, "", text), ",".join(mechanisms)
    if not mechanisms:
        raise ConfigError(name, shown, f"some of {', '.join(SERVED)}: nobody could log in on {listener}")
    for mechanism in mechanisms:
        problem = why_not_served(mechanism)
        if problem is not None:
            raise ConfigError(name, shown, f"what can be served on {listener}, and {problem}")
    users = _module(listener, PLAIN, text).users if PLAIN in mechanisms else {}
    if PLAIN in mechanisms and not users:
        raise ConfigError(jaas_key(listener, PLAIN), HIDDEN, 'users of PLAIN in it, as in user_ada="<password>"')
    return ListenerSasl(mechanisms, users, {one: _lifetime_ms(listener, one, text) for one in mechanisms})


def login_on(listener: str, key: str, text: Text) -> NodeLogin:
    """`key` says with which mechanism. Raises ConfigError."""
    mechanism = str(_value(key, "", "", text))
    problem = why_not_served(mechanism)
    if problem is not None:
        raise ConfigError(key, mechanism, f"a mechanism for the listener {listener}, and {problem}")
    _module(listener, mechanism, text)
    name = jaas_key(listener, mechanism)
    try:
        return NodeLogin(mechanism, *credentials_of(text(name) or "", mechanism))
    except JaasError as error:
        raise ConfigError(name, HIDDEN, f"as whom this node logs in on {listener}; {error}") from None


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


def _lifetime_ms(listener: str, mechanism: str, text: Text) -> int:
    found = _value(REAUTH, listener, mechanism, text)
    assert isinstance(found, int)
    return found


def _check_classes(listener: str, text: Text) -> None:
    """Classes of Java's cannot be loaded, and passing over them would let others in than they do."""
    for key in CLASSES:
        for mechanism in ("", *SERVED):
            name = _name(key, listener, mechanism, text)
            found = text(name)
            if found:
                raise ConfigError(name, found, f"nothing: {listener} cannot have a class of Java's, so remove the key")


def _names(key: str, listener: str, mechanism: str) -> Iterator[str]:
    if listener and mechanism:
        yield f"{PREFIX}{listener.lower()}.{mechanism.lower()}.{key}"
    if listener:
        yield f"{PREFIX}{listener.lower()}.{key}"
    yield key


def _name(key: str, listener: str, mechanism: str, text: Text) -> str:
    """Under which the key is set, or would be."""
    return next((name for name in _names(key, listener, mechanism) if text(name) is not None), key)


def _value(key: str, listener: str, mechanism: str, text: Text) -> ConfigValue:
    definition = SECURITY_CONFIGS[key]
    name = _name(key, listener, mechanism, text)
    found = text(name)
    return parse_value(definition.replace(name=name), definition.default if found is None else found)


def _list(value: ConfigValue) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()
