"""What the areas of the controller share: what they decide from, and the form of a decision."""

from collections.abc import Iterable, Iterator, Mapping, MutableSequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from uuid import UUID

from penstock.controller.heartbeats import Heartbeats
from penstock.leadership.balancer import Balancer, BalanceSettings
from penstock.metadata.image import NOBODY, ClusterImage, ConfigResource
from penstock.metadata.records import ConfigRecord, MetadataRecord
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.uuids import uuid_to_text
from penstock.protocol.value import Value
from penstock.raft.voters import Quorum

if TYPE_CHECKING:
    from penstock.controller.policies import Verdicts
    from penstock.protocol.secret import Secret

MAX_RECORDS_PER_DECISION = 20_000
"""The records of a decision are appended as one batch, so that all of them hold or none; this bounds its size."""

MANY_RECORDS = 50
"""From so many on, the records of one batch hold the event loop for more than a moment when they are applied."""

ReplyT = TypeVar("ReplyT", covariant=True)


class Allowance:
    """What one request may still cost. What is refused uses up its part as well, once work may have gone into it: or
    else it could be asked for over and over in the same request, and worked out each time.
    """

    def __init__(self, limit: int, what: str) -> None:
        self._limit = self._left = limit
        self._what = what

    def take(self, cost: int) -> None:
        """Raises KafkaError POLICY_VIOLATION where there is not as much left."""
        if cost > self._left:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"One request may {self._what.format(self._limit)}")
        self._left -= cost


class QuorumUpgrade(Value):
    """The quorum's own level goes up, which is in no record of metadata; whether it can, its leader knows."""

    kraft_version: int
    validate_only: bool


class Decision(Value, Generic[ReplyT]):
    """The records are appended as one, or in `parts`; the reply may be sent once they are committed.

    An `upgrade` of the quorum comes before them: nothing is appended where it is refused.
    """

    records: list[MetadataRecord]
    reply: ReplyT
    upgrade: QuorumUpgrade | None = None
    waits_for_brokers: bool = False
    """The reply goes out when all brokers in service have applied the records; without any, all that brokers have
    to go by (`ControllerState.gone_by_offset`).
    """

    def parts(self, first: type[MetadataRecord] | None) -> Iterator[list[MetadataRecord]]:
        """The records of a decision on a large command, in parts that hold each on their own: whole topics, say.

        So nobody applies all of them in one go. A part begins with such a record as `first`; None: all hold or none.
        """
        begun = 0
        if first is not None:
            for number in range(MANY_RECORDS, len(self.records)):
                before, record = self.records[number - 1], self.records[number]
                if number - begun >= MANY_RECORDS and isinstance(record, first) and not _goes_on(before, record):
                    yield self.records[begun:number]
                    begun = number
        yield self.records[begun:]


def _goes_on(before: MetadataRecord, record: MetadataRecord) -> bool:
    """Whether both are configs of one resource."""
    if not isinstance(record, ConfigRecord) or not isinstance(before, ConfigRecord):
        return False
    return (record.resource_type, record.resource_name) == (before.resource_type, before.resource_name)


class Chance(Protocol):
    def getrandbits(self, k: int, /) -> int: ...

    def randrange(self, stop: int, /) -> int: ...

    def shuffle(self, x: MutableSequence[Any], /) -> None: ...


class TopicConfigEntry(Value):
    """`source` is Kafka's code for where the value comes from."""

    name: str
    value: str | None
    source: int
    sensitive: bool = False
    read_only: bool = False


class ConfigRules(Protocol):
    def check(self, image: ClusterImage, resource: ConfigResource, settings: Mapping[str, str]) -> None:
        """Raises KafkaError INVALID_CONFIG that names key and value."""

    def check_changes(self, resource: ConfigResource, changes: Iterable[tuple[str, str | None]]) -> None:
        """Refuses values that a resource may keep, but not get anew. Raises KafkaError."""

    def is_list(self, resource: ConfigResource, key: str) -> bool: ...

    def value_of(self, image: ClusterImage, resource: ConfigResource, key: str) -> str | None:
        """Set for the resource, or by default."""

    def topic_entries(self, image: ClusterImage, settings: Mapping[str, str]) -> list[TopicConfigEntry]: ...


class TokenSettings(Value):
    """Of delegation tokens: `secret` is what they are made of, `renewed_ms` how long one holds unless it is renewed."""

    secret: "Secret"
    renewed_ms: int
    max_lifetime_ms: int
    check_interval_ms: int


class ControllerSettings(Value):
    rules: ConfigRules
    num_partitions: int = 1
    default_replication_factor: int = 1
    delete_topic_enable: bool = True
    node_id: int = NOBODY
    """The node that this controller is on; a broker with the same id is part of the same process."""
    broker_session_timeout_ms: int = 9_000
    max_moves_per_decision: int = 2_000
    """Partitions of a broker that change in one decision: they need not do so together, nor clients wait long."""
    leader_balance: BalanceSettings = BalanceSettings()
    unused_limits_ms: int = 10_000
    """How long limits of moves stay when nothing is on the move any more."""
    has_authorizer: bool = False
    """Without one access rules are not made: they would be obeyed by nobody."""
    unclean_election_interval_ms: int | None = None
    """How often partitions without a leader are looked through for unclean elections; None: never."""
    tokens: TokenSettings | None = None
    """None: there are no delegation tokens."""
    leases: bool = False
    """Brokers lead within their leases alone, also while they hear no controller."""


@dataclass(slots=True)
class ControllerState:
    """Decisions only read it, but for the soft state, which is in no record; applied records change the image."""

    image: ClusterImage
    settings: ControllerSettings
    chance: Chance
    next_offset: int = 0
    """A broker's epoch is the offset of its registration."""
    quorum: Quorum = field(default_factory=Quorum)
    """The voters, as the end of the log says: what is decided on them comes behind that."""
    unclean_is_due: bool = False
    """A config of unclean elections has changed: partitions without a leader are looked through at once."""
    group_claims: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The last claim of each storage group: the epoch of its log, and its leader."""
    verdicts: "Verdicts | None" = None
    """What policies said about the command that is decided; None if there are none."""
    asker: str = ""
    """Whose command it is, where that was proved by other means than a delegation token; else empty."""
    gone_by_offset: int = field(init=False)
    """Of the last record whose command is answered when brokers go by it; an earlier controller's may have been any."""
    token_ids: dict[bytes, str] = field(default_factory=dict, repr=False)
    """Of delegation tokens, by what their owners show; those that were there when one was last looked for in vain."""
    heartbeats: Heartbeats = field(init=False)
    balancer: Balancer = field(init=False)

    def __post_init__(self) -> None:
        self.heartbeats = Heartbeats(self.settings.broker_session_timeout_ms, self.settings.node_id)
        self.balancer = Balancer(self.settings.leader_balance)
        self.gone_by_offset = self.next_offset - 1

    def new_rule_id(self) -> UUID:
        while True:
            rule_id = UUID(int=self.chance.getrandbits(128), version=4)
            if rule_id not in self.image.security.access_rules:
                return rule_id

    def new_token_id(self) -> str:
        while True:
            token_id = uuid_to_text(UUID(int=self.chance.getrandbits(128), version=4))
            if token_id not in self.image.security.delegation_tokens and not token_id.startswith("-"):
                return token_id

    def new_topic_id(self) -> UUID:
        """No other topic has it, and no command line takes its text for an option."""
        while True:
            topic_id = UUID(int=self.chance.getrandbits(128), version=4)
            if topic_id not in self.image.topics_by_id and not uuid_to_text(topic_id).startswith("-"):
                return topic_id


def decided_for_brokers(state: ControllerState, records: list[MetadataRecord], reply: Any) -> Decision[Any]:
    """A decision that all brokers in service apply before it is answered; a fenced one, before it is let in."""
    if records:
        state.gone_by_offset = state.next_offset + len(records) - 1
        for broker in state.image.brokers.values():
            if broker.fenced:
                state.heartbeats.loses(broker.node_id, state.gone_by_offset)
    return Decision(records, reply, waits_for_brokers=True)
