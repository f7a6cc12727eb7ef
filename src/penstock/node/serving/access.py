"""What an API does to which kind of thing, in the words of Kafka's authorisation.

Each API declares its needs, as Kafka's table of operations and resources on protocols has them, and as its code does
where that is newer. Of several, each is about another part of the request, or one will do where the other is not
granted. Nobody is refused anything yet.
"""

from enum import Enum, IntEnum


class Operation(IntEnum):
    """What may be granted or refused, with Kafka's codes."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Resource(IntEnum):
    """On what, with Kafka's codes; there is one cluster, the others have names."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Need(Enum):
    """A right that an API asks for: an operation, and on what."""

    READ_TOPIC = Operation.READ, Resource.TOPIC
    WRITE_TOPIC = Operation.WRITE, Resource.TOPIC
    CREATE_TOPIC = Operation.CREATE, Resource.TOPIC
    DELETE_TOPIC = Operation.DELETE, Resource.TOPIC
    ALTER_TOPIC = Operation.ALTER, Resource.TOPIC
    DESCRIBE_TOPIC = Operation.DESCRIBE, Resource.TOPIC
    DESCRIBE_TOPIC_CONFIGS = Operation.DESCRIBE_CONFIGS, Resource.TOPIC
    ALTER_TOPIC_CONFIGS = Operation.ALTER_CONFIGS, Resource.TOPIC

    READ_GROUP = Operation.READ, Resource.GROUP
    DELETE_GROUP = Operation.DELETE, Resource.GROUP
    DESCRIBE_GROUP = Operation.DESCRIBE, Resource.GROUP
    DESCRIBE_GROUP_CONFIGS = Operation.DESCRIBE_CONFIGS, Resource.GROUP
    ALTER_GROUP_CONFIGS = Operation.ALTER_CONFIGS, Resource.GROUP

    CREATE_IN_CLUSTER = Operation.CREATE, Resource.CLUSTER
    DELETE_IN_CLUSTER = Operation.DELETE, Resource.CLUSTER
    ALTER_CLUSTER = Operation.ALTER, Resource.CLUSTER
    DESCRIBE_CLUSTER = Operation.DESCRIBE, Resource.CLUSTER
    CLUSTER_ACTION = Operation.CLUSTER_ACTION, Resource.CLUSTER
    DESCRIBE_CLUSTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Resource.CLUSTER
    ALTER_CLUSTER_CONFIGS = Operation.ALTER_CONFIGS, Resource.CLUSTER
    IDEMPOTENT_WRITE = Operation.IDEMPOTENT_WRITE, Resource.CLUSTER

    WRITE_TRANSACTION = Operation.WRITE, Resource.TRANSACTIONAL_ID
    DESCRIBE_TRANSACTION = Operation.DESCRIBE, Resource.TRANSACTIONAL_ID

    def __init__(self, operation: Operation, resource: Resource) -> None:
        self.operation = operation
        self.resource = resource


NOTHING: tuple[Need, ...] = ()
"""What the handshake needs: it comes before anybody has said who it is."""
