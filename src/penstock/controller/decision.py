"""What the areas of the controller share: what they decide from, and the form of a decision."""

from collections.abc import Iterable, Mapping, MutableSequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from penstock.controller.heartbeats import Heartbeats
from penstock.leadership.balancer import Balancer, BalanceSettings
from penstock.metadata.image import NOBODY, ClusterImage, ConfigResource
from penstock.metadata.records import MetadataRecord
from penstock.protocol.uuids import uuid_to_text
from penstock.protocol.value import Value

MAX_RECORDS_PER_DECISION = 20_000
"""The records of a decision are appended as one batch, so that all of them hold or none; this bounds its size."""

ReplyT = TypeVar("ReplyT", covariant=True)


class Decision(Value, Generic[ReplyT]):
    """Records to append as one, and the reply that may be sent once they are committed."""

    records: list[MetadataRecord]
    reply: ReplyT


class Chance(Protocol):
    """Where drawn lots come from: `random.Random` and its like."""

    def getrandbits(self, k: int, /) -> int:
        """Draws a number of `k` bits."""

    def randrange(self, stop: int, /) -> int:
        """Draws a number below `stop`."""

    def shuffle(self, x: MutableSequence[Any], /) -> None:
        """Puts `x` into a drawn order."""


class TopicConfigEntry(Value):
    """One config of a new topic as its creator is told it; `source` is Kafka's code for where the value comes from."""

    name: str
    value: str | None
    source: int
    sensitive: bool = False
    read_only: bool = False


class ConfigRules(Protocol):
    """What the controller needs to know about configs."""

    def check(self, image: ClusterImage, resource: ConfigResource, settings: Mapping[str, str]) -> None:
        """Refuses what `resource` must not be set to: KafkaError INVALID_CONFIG that names key and value."""

    def check_changes(self, resource: ConfigResource, changes: Iterable[tuple[str, str | None]]) -> None:
        """Refuses values that a resource may have from earlier on, and gets no more. Raises KafkaError."""

    def is_list(self, resource: ConfigResource, key: str) -> bool:
        """Whether `key` holds a list, to which one can append."""

    def value_of(self, image: ClusterImage, resource: ConfigResource, key: str) -> str | None:
        """What `key` has now, set or by default."""

    def topic_entries(self, image: ClusterImage, settings: Mapping[str, str]) -> list[TopicConfigEntry]:
        """All configs that a topic with these settings has, by name."""


class ControllerSettings(Value):
    """What an operator decided about the controller."""

    rules: ConfigRules
    num_partitions: int = 1
    default_replication_factor: int = 1
    delete_topic_enable: bool = True
    node_id: int = NOBODY
    """The node that this controller is on; a broker with the same id is part of the same process."""
    broker_session_timeout_ms: int = 9_000
    max_moves_per_decision: int = 2_000
    """How many partitions follow a broker in one decision: they need not hold together, and nobody should wait long."""
    leader_balance: BalanceSettings = BalanceSettings()
    """How leadership goes back to preferred replicas."""
    unclean_election_interval_ms: int | None = None
    """How often partitions without a leader are looked through for such as may be led uncleanly; None means never."""


@dataclass(slots=True)
class ControllerState:
    """All that a decision is made from. Decisions read it; only records that are applied to the image change it.

    But for the soft state, which is in no record: there a decision notes whom it heard of, and what it left to do.
    """

    image: ClusterImage
    settings: ControllerSettings
    chance: Chance
    next_offset: int = 0
    """The offset that the next record will have: a broker's epoch is the offset of its registration."""
    unclean_is_due: bool = False
    """Somebody has changed where outdated replicas may lead: partitions without a leader are looked through at once."""
    group_claims: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The last claim of each storage group: the epoch of its log, and who leads in it."""
    heartbeats: Heartbeats = field(init=False)
    balancer: Balancer = field(init=False)

    def __post_init__(self) -> None:
        self.heartbeats = Heartbeats(self.settings.broker_session_timeout_ms, self.settings.node_id)
        self.balancer = Balancer(self.settings.leader_balance)

    def new_topic_id(self) -> UUID:
        """Draws an id that no topic has and whose text no command line takes for an option."""
        while True:
            topic_id = UUID(int=self.chance.getrandbits(128), version=4)
            if topic_id not in self.image.topics_by_id and not uuid_to_text(topic_id).startswith("-"):
                return topic_id
