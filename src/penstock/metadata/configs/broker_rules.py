"""What broker keys must fulfil together: who a node is, where it is found, and limits, by Kafka's rules.

What the roles of a node ask of its listeners and its quorum is in `role_rules`.
"""

from collections.abc import Callable, Iterator, Mapping

from penstock.metadata.configs.definitions import ConfigError, ConfigValue
from penstock.metadata.configs.listeners import Listener, parse_listeners, parse_protocol_map
from penstock.metadata.configs.protection import PLAINTEXT
from penstock.metadata.configs.role_rules import check_roles
from penstock.metadata.configs.voters import (
    BOOTSTRAP_KEY,
    VOTERS_KEY,
    Voter,
    parse_servers,
    parse_voters,
)
from penstock.protocol.address import Address

LISTENERS_KEY = "listeners"
MAP_KEY = "listener.security.protocol.map"
PROTOCOL_KEY = "security.inter.broker.protocol"
NOT_ROUTABLE = ("0.0.0.0", "::")
ValueOf = Callable[[str], ConfigValue]


class Addresses:
    """A node that is no controller has names of controller listeners all the same: by the first of them it talks to the
    controllers.
    """

    process_roles: tuple[str, ...]
    node_id: int
    listeners: tuple[Listener, ...]
    broker_listeners: tuple[Listener, ...]
    controller_listeners: tuple[Listener, ...]
    controller_listener_names: tuple[str, ...]
    advertised_listeners: tuple[Listener, ...]
    advertised_controller_listeners: tuple[Listener, ...]
    inter_broker_listener_name: str
    voters: dict[int, Voter]
    bootstrap_servers: tuple[Address, ...]
    log_dirs: tuple[str, ...]
    listener_names: tuple[str, ...]
    """All listeners in the file, and those of the controllers."""
    protocols: dict[str, str]
    """By the names of listeners, those of other nodes included."""

    def protocol_of(self, listener: str) -> str:
        return self.protocols.get(listener, PLAINTEXT)

    def read_addresses(self, static: Mapping[str, str], value: ValueOf) -> None:
        """Raises ConfigError for a key of identity or address that is not well formed or contradicts another."""
        roles = _roles(static, value)
        controller_names = tuple(name.upper() for name in _texts(value("controller.listener.names")))
        protocols = _protocols(static, value, controller_names)
        listeners = parse_listeners("listeners", _texts(value("listeners")), protocols)
        if not listeners:
            raise ConfigError("listeners", static.get("listeners"), "at least one listener")
        self.protocols = protocols
        self.listener_names = tuple(dict.fromkeys((*(one.name for one in listeners), *controller_names)))
        self.process_roles = roles
        self.node_id, self.voters = _node_id(static, value), parse_voters(_texts(value(VOTERS_KEY)))
        self.bootstrap_servers = parse_servers(BOOTSTRAP_KEY, _texts(value(BOOTSTRAP_KEY)))
        has_bootstrap = bool(self.bootstrap_servers)
        check_roles(roles, self.node_id, listeners, controller_names, tuple(self.voters), has_bootstrap=has_bootstrap)
        self.listeners = listeners
        self.broker_listeners = tuple(one for one in listeners if one.name not in controller_names)
        self.controller_listeners = tuple(one for one in listeners if one.name in controller_names)
        self.controller_listener_names = controller_names
        own = _advertised(static, value, protocols, self.broker_listeners, listeners)
        self.advertised_listeners = tuple(own.get(one.name, one) for one in self.broker_listeners)
        self.advertised_controller_listeners = tuple(own.get(one.name, one) for one in self.controller_listeners)
        self.inter_broker_listener_name = _inter_broker_name(static, value, self.broker_listeners)
        self.log_dirs = _log_dirs(value)


def added_listeners(file: Addresses, text: Callable[[str], str | None]) -> tuple[Listener, ...]:
    """What a broker listens on beside the listeners of its file, by what these two keys are set to while it runs.

    The others are registered with the controller, and so nodes and clients are told of them: they stay as they are, as
    Kafka has it. Raises ConfigError.
    """
    pairs, listeners = text(MAP_KEY), text(LISTENERS_KEY) or ""
    protocols = {name: file.protocol_of(name) for name in file.controller_listener_names}
    protocols |= parse_protocol_map(MAP_KEY, tuple(pairs.split(",")) if pairs else ())
    items = tuple(item.strip() for item in listeners.split(","))
    wanted = {one.name: one for one in parse_listeners(LISTENERS_KEY, items, protocols)}
    for listener in file.listeners:
        found = wanted.pop(listener.name, None)
        if found is None:
            raise ConfigError(LISTENERS_KEY, listeners, f"{listener} among them: it goes only with a restart")
        if found != listener:
            allowed = f"{listener} with {listener.security_protocol}: it changes only with a restart"
            raise ConfigError(LISTENERS_KEY, f"{found} with {found.security_protocol}", allowed)
    return tuple(wanted.values())


def _texts(value: ConfigValue) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _roles(static: Mapping[str, str], value: ValueOf) -> tuple[str, ...]:
    roles = _texts(value("process.roles"))
    if not roles:
        raise ConfigError(
            "process.roles",
            static.get("process.roles"),
            "broker, controller or both (without it Kafka ran in ZooKeeper mode, which does not exist here)",
        )
    if len(set(roles)) != len(roles):
        raise ConfigError("process.roles", ",".join(roles), "each role once")
    if "controller" not in roles and value("controller.quorum.auto.join.enable"):
        raise ConfigError(
            "controller.quorum.auto.join.enable", "true", "false, because process.roles has no controller"
        )
    return tuple(sorted(roles))


def _node_id(static: Mapping[str, str], value: ValueOf) -> int:
    node_id, broker_id = static.get("node.id"), static.get("broker.id")
    if node_id is not None and broker_id is not None and node_id.strip() != broker_id.strip():
        raise ConfigError("broker.id", broker_id, f"the value of node.id, which is {node_id}")
    number = value("node.id") if node_id is not None else value("broker.id")
    if not isinstance(number, int) or number < 0:
        raise ConfigError("node.id", node_id, "a whole number of at least 0")
    return number


def _protocols(static: Mapping[str, str], value: ValueOf, controller_names: tuple[str, ...]) -> dict[str, str]:
    text = value(MAP_KEY)
    protocols = parse_protocol_map(MAP_KEY, tuple(str(text).split(",")) if text else ())
    if MAP_KEY not in static:
        protocols = dict.fromkeys(controller_names, "PLAINTEXT") | protocols
    for name in controller_names:
        if name not in protocols:
            raise ConfigError("controller.listener.names", name, f"names that {MAP_KEY} knows")
    return protocols


def _advertised(
    static: Mapping[str, str],
    value: ValueOf,
    protocols: Mapping[str, str],
    broker_listeners: tuple[Listener, ...],
    listeners: tuple[Listener, ...],
) -> dict[str, Listener]:
    """By the listener's name."""
    key = "advertised.listeners"
    if not static.get(key, "").strip():
        for listener in broker_listeners:
            if listener.host in NOT_ROUTABLE:
                raise ConfigError(key, None, f"an address for {listener}: no client can connect to {listener.host}")
        return {}
    advertised = parse_listeners(key, _texts(value(key)), protocols)
    names = [listener.name for listener in listeners]
    for listener in advertised:
        if listener.host in NOT_ROUTABLE:
            raise ConfigError(key, str(listener), f"a host that clients can connect to, and {listener.host} is none")
        if listener.name not in names:
            raise ConfigError(key, str(listener), f"names that listeners has: {', '.join(names)}")
    return {listener.name: listener for listener in advertised}


def _inter_broker_name(static: Mapping[str, str], value: ValueOf, broker_listeners: tuple[Listener, ...]) -> str:
    key = "inter.broker.listener.name"
    names = [listener.name for listener in broker_listeners]
    name = static.get(key, "").strip().upper()
    by_protocol = str(value("security.inter.broker.protocol"))
    if name and PROTOCOL_KEY in static:
        raise ConfigError(key, name, f"either this or {PROTOCOL_KEY}, not both")
    if not names:  # A controller has no listener for brokers of its own.
        return name or by_protocol
    if name:
        if name not in names:
            raise ConfigError(key, name, f"the name of a listener that is not the controller's: {', '.join(names)}")
        return name
    if by_protocol in names:
        return by_protocol
    if PROTOCOL_KEY in static:
        raise ConfigError(
            PROTOCOL_KEY, by_protocol, f"the name of a listener, or set {key} instead: {', '.join(names)}"
        )
    return names[0]


EVERY_DIRECTORY = "*"


def _log_dirs(value: ValueOf) -> tuple[str, ...]:
    directories = _texts(value("log.dirs")) or (str(value("log.dir")).strip(),)
    if not all(directories) or len(set(directories)) != len(directories):
        raise ConfigError("log.dirs", ",".join(directories), "at least one directory, none empty, each once")
    return directories


def check_cordoned(directories: tuple[str, ...], known: tuple[str, ...]) -> None:
    """Raises ConfigError for directories that are not all among the known ones, or `*` alone."""
    if directories != (EVERY_DIRECTORY,) and not set(directories) <= set(known):
        raise ConfigError("cordoned.log.dirs", ",".join(directories), f"some of {', '.join(known)}, or * for all")


_AT_MOST = (
    ("broker.heartbeat.interval.ms", "broker.session.timeout.ms"),
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.assignment.interval.ms", "group.consumer.assignment.interval.ms"),
    ("group.consumer.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
)


def check_rules(value: ValueOf) -> None:
    for smaller, larger in _AT_MOST:
        low, high = value(smaller), value(larger)
        assert isinstance(low, int)
        assert isinstance(high, int)
        if low > high:
            raise ConfigError(smaller, str(low), f"at most the value of {larger}, which is {high}")


_SINGLE_NODE_KEYS = (
    "default.replication.factor",
    "min.insync.replicas",
    "offsets.topic.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.state.log.replication.factor",
)


def single_node_warnings(static: Mapping[str, str], value: ValueOf) -> Iterator[str]:
    """Keys that ask for more replicas than a single node has, unless their default does."""
    for name in _SINGLE_NODE_KEYS:
        wanted = value(name)
        if name in static and isinstance(wanted, int) and wanted > 1:
            yield f"{name}={wanted} asks for more replicas than this cluster of one node has"


def with_both_ids(static: Mapping[str, str]) -> dict[str, str]:
    """node.id stands for broker.id and the other way round, as in Kafka."""
    settings = dict(static)
    for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
        if name in static:
            settings.setdefault(other, static[name])
    return settings
