"""What the roles of a node ask of its listeners and its quorum, by Kafka's rules (KIP-500, KIP-631, KIP-853).

| role       | its id         | its listeners                              | names of controller listeners        |
| ---------- | -------------- | ------------------------------------------ | ------------------------------------ |
| broker     | not a voter's  | none of the controller's                   | at least one: the controllers' own   |
| controller | a voter's      | only the controller's                      | each is one of its listeners         |
| both       | a voter's      | at least one that is not the controller's  | each is one of its listeners         |

A node must be told how to find the quorum: its voters, or servers that know them. If it is told the latter only, the
voters are what the metadata log says, and the column on ids does not apply. One exception is ours: a node of both
roles that has no controller listener is a quorum of its own.
"""

from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.listeners import Listener
from penstock.metadata.configs.voters import BOOTSTRAP_KEY, VOTERS_KEY

NAMES_KEY = "controller.listener.names"


def check_roles(
    roles: tuple[str, ...],
    node_id: int,
    listeners: tuple[Listener, ...],
    controller_names: tuple[str, ...],
    voters: tuple[int, ...],
    *,
    has_bootstrap: bool,
) -> None:
    """ConfigError if id, roles, listeners and voters contradict each other."""
    known = tuple(listener.name for listener in listeners)
    knows_quorum = bool(voters) or has_bootstrap
    if "controller" not in roles:
        _check_broker(node_id, known, controller_names, voters)
    else:
        _check_controller(node_id, known, controller_names, voters, needs_listener=knows_quorum or len(roles) == 1)
    if roles == ("controller",):
        _check_only_controllers(listeners, controller_names)
    elif all(name in controller_names for name in known):
        raise ConfigError("listeners", _text(listeners), "at least one listener that is not the controller's")
    if not knows_quorum and (len(roles) == 1 or controller_names):
        role = " and ".join(roles)
        raise ConfigError(
            VOTERS_KEY, None, f"the voters of the quorum, unless {BOOTSTRAP_KEY} is set: this is a {role}"
        )


def _check_broker(
    node_id: int, known: tuple[str, ...], controller_names: tuple[str, ...], voters: tuple[int, ...]
) -> None:
    if node_id in voters:
        raise ConfigError(
            "node.id",
            str(node_id),
            f"none of the ids in {VOTERS_KEY} ({_ids(voters)}), because process.roles is broker",
        )
    if not controller_names:
        raise ConfigError(NAMES_KEY, None, "the name of the controllers' listener, because process.roles is broker")
    for name in controller_names:
        if name in known:
            raise ConfigError(NAMES_KEY, name, "names that listeners has not, because process.roles is broker")


def _check_controller(
    node_id: int,
    known: tuple[str, ...],
    controller_names: tuple[str, ...],
    voters: tuple[int, ...],
    *,
    needs_listener: bool,
) -> None:
    if voters and node_id not in voters:
        raise ConfigError(
            "node.id", str(node_id), f"one of the ids in {VOTERS_KEY} ({_ids(voters)}), because this is a controller"
        )
    if needs_listener and not controller_names:
        raise ConfigError(NAMES_KEY, None, "the name of a listener in listeners, because this is a controller")
    for name in controller_names:
        if name not in known:
            raise ConfigError(
                NAMES_KEY, name, f"names that listeners has ({', '.join(known)}), because this is a controller"
            )


def _check_only_controllers(listeners: tuple[Listener, ...], controller_names: tuple[str, ...]) -> None:
    for listener in listeners:
        if listener.name not in controller_names:
            raise ConfigError(
                "listeners",
                str(listener),
                f"only those of {NAMES_KEY} ({', '.join(controller_names)}), because process.roles is controller",
            )


def _ids(voters: tuple[int, ...]) -> str:
    return ", ".join(str(voter) for voter in voters)


def _text(listeners: tuple[Listener, ...]) -> str:
    return ",".join(str(listener) for listener in listeners)
