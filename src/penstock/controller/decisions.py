"""Which function decides on which command. Its module is imported when the first such command comes.

Most clusters never see most commands, and a node that starts should not pay for them.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from penstock.controller.decision import ControllerState, Decision
from penstock.protocol.api import AnyApiKey, ApiKey
from penstock.protocol.framing import api_of_request
from penstock.protocol.schema import Message

Decide = Callable[[ControllerState, Any, int], Decision[Any]]

DECISIONS: Final[dict[AnyApiKey, str]] = {
    ApiKey.CREATE_TOPICS: "create_topics",
    ApiKey.DELETE_TOPICS: "delete_topics",
    ApiKey.CREATE_PARTITIONS: "create_partitions",
    ApiKey.ALTER_CONFIGS: "alter_configs",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "alter_configs",
    ApiKey.ALLOCATE_PRODUCER_IDS: "producer_ids",
    ApiKey.BROKER_REGISTRATION: "registrations",
    ApiKey.BROKER_HEARTBEAT: "brokers",
    ApiKey.CONTROLLER_REGISTRATION: "registrations",
    ApiKey.UNREGISTER_BROKER: "registrations",
    ApiKey.ALTER_PARTITION: "alter_partition",
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: "assign_directories",
    ApiKey.ELECT_LEADERS: "elect_leaders",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "reassignments",
    ApiKey.UPDATE_FEATURES: "update_features",
}
"""Every command: the module of this package with its function, `decide_` and the command's name."""


def is_command(request: Message) -> bool:
    """Whether the controller decides on such a request."""
    return api_of_request(request).key in DECISIONS


def decision_on(command: Message) -> Decide:
    """What decides on such a command."""
    key = api_of_request(command).key
    assert is_command(command), f"{type(command).__name__} is no command of the controller"
    decide: Decide = getattr(import_module(f"penstock.controller.{DECISIONS[key]}"), f"decide_{key.name.lower()}")
    return decide
