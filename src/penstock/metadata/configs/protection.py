"""Keys of a node that ask it to protect what it has, and which of that it does not do yet.

A node that ignored them would serve all clients where its administrator wants to serve few. So it does not start
unless `penstock.security.ignored` says so. All other keys of security say how a protection works that one of these, or
the protocol of a listener, asks for; a test names them, so that a new key has to be thought of.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from penstock.metadata.configs.definitions import ConfigError

IGNORED_KEY: Final = "penstock.security.ignored"
PLAINTEXT: Final = "PLAINTEXT"
AUTHORIZER_KEY: Final = "authorizer.class.name"
SUPER_USERS_KEY: Final = "super.users"
QUOTAS_KEY: Final = "client.quota.callback.class"
EVERYBODY_KEY: Final = "allow.everyone.if.no.acl.found"
EARLY_KEY: Final = "early.start.listeners"
NODE_LISTENERS_KEY: Final = "penstock.authorizer.node.listeners"
MODE_KEY: Final = "penstock.authorizer.mode"
WATCH: Final = "watch"
AUTHORIZED: Final = (AUTHORIZER_KEY, SUPER_USERS_KEY)
"""They ask for protection, and get it from the authorizer that is there."""
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ANONYMOUS: Final = "User:ANONYMOUS"


def _is_set(value: str) -> bool:
    return bool(value)


ASKS: Final[Mapping[str, Callable[[str], bool]]] = {
    AUTHORIZER_KEY: _is_set,
    SUPER_USERS_KEY: _is_set,
    QUOTAS_KEY: _is_set,
}
"""With which values a key asks for protection."""


def asked_by_keys(settings: Mapping[str, str]) -> Iterator[str]:
    """`settings` are from a file or from the metadata."""
    for name, text in settings.items():
        if asks(name, text):
            yield f"{name}={text.strip()}{_hint(name, text.strip())}"


def _hint(name: str, text: str) -> str:
    if name == QUOTAS_KEY:
        return ", a class of Java's, where penstock configs sets quotas of users and client ids"
    if name == AUTHORIZER_KEY and text != STANDARD_AUTHORIZER:
        return f", where {STANDARD_AUTHORIZER} is the one that is there"
    return ""


def asks(name: str, text: str) -> bool:
    """Some keys ask for protection only with some values."""
    rule = ASKS.get(name)
    return rule is not None and rule(text.strip())


def parse_super_users(text: str) -> tuple[str, ...]:
    """Principals with semicolons between them. Raises ConfigError."""
    users = tuple(user.strip() for user in text.split(";") if user.strip())
    for user in users:
        if ":" not in user:
            raise ConfigError(SUPER_USERS_KEY, text, f"a type before each name, as in User:{user}")
        if ",User:" in user.replace(", ", ","):  # a name may have commas, as that of a certificate has
            raise ConfigError(SUPER_USERS_KEY, text, "semicolons between principals, as in User:ada;User:bob")
    return users


def check_listeners(key: str, wanted: Sequence[str], known: Sequence[str]) -> None:
    """Raises ConfigError for a listener that is not known."""
    for name in wanted:
        if name not in known:
            raise ConfigError(key, name, f"names of listeners: {', '.join(known)}")


def check_early_listeners(wanted: Sequence[str], known: Sequence[str], controllers: Sequence[str]) -> None:
    """Raises ConfigError for a listener that is not known, or if controllers could elect nobody."""
    check_listeners(EARLY_KEY, wanted, known)
    if controllers and controllers[0] not in wanted:
        expected = f"names with {controllers[0]} among them, by which controllers elect a leader, who knows the rules"
        raise ConfigError(EARLY_KEY, ",".join(wanted), expected)


def unproven_nodes(between_nodes: Sequence[str], super_users: Sequence[str], trusted: Sequence[str]) -> Iterator[str]:
    """Warnings about listeners on which an authorizer cannot tell a node from a client."""
    for name in dict.fromkeys(between_nodes):
        if name not in trusted and ANONYMOUS not in super_users:
            yield (
                f"nodes come to the listener {name} as {ANONYMOUS}, which is not in {SUPER_USERS_KEY} and needs a right"
                f" to CLUSTER_ACTION there: if only nodes can reach the listener, put it into {NODE_LISTENERS_KEY}"
            )
