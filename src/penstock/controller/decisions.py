"""Which function decides on which command.

The functions are named, not imported: all of their modules and messages would make a node's start 25 ms longer, a
twentieth of it, and most clusters never see most commands. So a module is imported when its first command comes.
"""

from collections.abc import Callable, Iterator
from itertools import accumulate, chain
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final

from penstock.controller.decision import ControllerState, Decision
from penstock.metadata.image import ClusterImage, TopicImage
from penstock.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.protocol.requests.api import AnyApiKey, ApiKey, OwnApiKey
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.schema import Message

if TYPE_CHECKING:
    from penstock.protocol.messages.delete_topics import DeleteTopicsRequest

Decide = Callable[[ControllerState, Any, int], Decision[Any]]

DECISIONS: Final[dict[AnyApiKey, str]] = {
    ApiKey.CREATE_TOPICS: "penstock.controller.create_topics:decide_create_topics",
    ApiKey.DELETE_TOPICS: "penstock.controller.delete_topics:decide_delete_topics",
    ApiKey.CREATE_PARTITIONS: "penstock.controller.create_partitions:decide_create_partitions",
    ApiKey.ALTER_CONFIGS: "penstock.controller.alter_configs:decide_alter_configs",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "penstock.controller.alter_configs:decide_incremental_alter_configs",
    ApiKey.ALLOCATE_PRODUCER_IDS: "penstock.controller.producer_ids:decide_allocate_producer_ids",
    ApiKey.BROKER_REGISTRATION: "penstock.controller.registrations:decide_broker_registration",
    ApiKey.BROKER_HEARTBEAT: "penstock.controller.brokers:decide_broker_heartbeat",
    ApiKey.CONTROLLER_REGISTRATION: "penstock.controller.registrations:decide_controller_registration",
    ApiKey.UNREGISTER_BROKER: "penstock.controller.unregistrations:decide_unregister_broker",
    ApiKey.UNREGISTER_CONTROLLER: "penstock.controller.unregistrations:decide_unregister_controller",
    ApiKey.ALTER_PARTITION: "penstock.controller.alter_partition:decide_alter_partition",
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: "penstock.controller.assign_directories:decide_assign_replicas_to_dirs",
    ApiKey.ELECT_LEADERS: "penstock.controller.elect_leaders:decide_elect_leaders",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "penstock.controller.reassignments:decide_alter_partition_reassignments",
    OwnApiKey.BALANCE_LEADERS: "penstock.controller.balance_leaders:decide_balance_leaders",
    OwnApiKey.HAND_OVER_LEADER: "penstock.controller.hand_over_leader:decide_hand_over_leader",
    OwnApiKey.CLAIM_STORAGE_GROUP: "penstock.controller.claim_storage_group:decide_claim_storage_group",
    OwnApiKey.CREATE_STORAGE_GROUP: "penstock.controller.create_storage_group:decide_create_storage_group",
    ApiKey.CREATE_ACLS: "penstock.controller.acls:decide_create_acls",
    ApiKey.DELETE_ACLS: "penstock.controller.acls:decide_delete_acls",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "penstock.controller.scram_users:decide_alter_user_scram_credentials",
    ApiKey.ALTER_CLIENT_QUOTAS: "penstock.controller.client_quotas:decide_alter_client_quotas",
    ApiKey.CREATE_DELEGATION_TOKEN: "penstock.controller.delegation_tokens:decide_create_delegation_token",
    ApiKey.RENEW_DELEGATION_TOKEN: "penstock.controller.delegation_tokens:decide_renew_delegation_token",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "penstock.controller.delegation_tokens:decide_expire_delegation_token",
    ApiKey.UPDATE_FEATURES: "penstock.controller.update_features:decide_update_features",
}
"""As `module:function`."""

PARTS: Final[dict[AnyApiKey, type[MetadataRecord]]] = {
    ApiKey.CREATE_TOPICS: TopicRecord,
    ApiKey.DELETE_TOPICS: RemoveTopicRecord,
    ApiKey.ALTER_CONFIGS: ConfigRecord,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ConfigRecord,
    ApiKey.ALTER_PARTITION: PartitionChangeRecord,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: PartitionChangeRecord,
    ApiKey.ELECT_LEADERS: PartitionChangeRecord,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: PartitionChangeRecord,
}
"""Of commands that ask for things which need not be done together: the record that begins what is done for another one.

The records of all others hold together or not at all: a broker that is back is not known to be so before it is known
what its crash may have cost.
"""


def is_command(request: Message) -> bool:
    return api_of_request(request).key in DECISIONS


MANY: Final = 20
TOKENS_AS_ONE: Final = 50
"""As many are looked through in the time that one of the others takes."""
_PARTITIONS: Final = ("num_partitions", "count")
"""That a topic is to have."""


def is_large(command: Any, image: ClusterImage) -> bool:
    """Whether a decision takes long, as the command is about more than `MANY` topics, partitions or configs."""
    key, counts = api_of_request(command).key, _counts(command)
    if key == ApiKey.DELETE_TOPICS:
        counts = chain(counts, (len(topic.partitions) for topic in _deleted(command, image)))
    if key == ApiKey.ELECT_LEADERS and command.topic_partitions is None:
        counts = iter((len(image.topics),))
    if key == ApiKey.DELETE_ACLS:
        counts = chain(counts, (len(image.security.access_rules),))
    if key in (ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN):
        counts = chain(counts, (len(image.security.delegation_tokens) // TOKENS_AS_ONE,))
    return any(many > MANY for many in accumulate(counts))


def _counts(message: Message) -> Iterator[int]:
    for name, field in message.__fields__.items():
        value = getattr(message, name)
        if name in _PARTITIONS:
            yield max(0, value)
        elif field.is_array:
            for item in value or ():
                yield 1
                if isinstance(item, Message):
                    yield from _counts(item)


def _deleted(command: "DeleteTopicsRequest", image: ClusterImage) -> Iterator[TopicImage]:
    names = chain(command.topic_names, (topic.name for topic in command.topics if topic.name is not None))
    found = chain(map(image.topics.get, names), (image.topics_by_id.get(topic.topic_id) for topic in command.topics))
    return (topic for topic in found if topic is not None)


def decision_on(command: Message) -> Decide:
    assert is_command(command), f"{type(command).__name__} is no command of the controller"
    function: Decide = resolve_name(DECISIONS[api_of_request(command).key])
    return function


def parts_of(command: Message, decision: Decision[Any]) -> Iterator[list[MetadataRecord]]:
    """What may be committed before the rest is."""
    return decision.parts(PARTS.get(api_of_request(command).key))
