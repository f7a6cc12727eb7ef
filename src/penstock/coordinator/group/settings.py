"""What the operator may set about groups, by Kafka's defaults."""

from enum import Enum

from penstock.protocol.value import Value


def patience_ms(timeout_ms: int) -> int:
    """How much of a timeout may pass before a member that lets it pass is named."""
    return timeout_ms * 2 // 3


class Bounded(Value):
    """A default that a group may change within bounds: a time in milliseconds, mostly."""

    default: int
    least: int
    most: int

    def of(self, text: str | None) -> int:
        """What a group says is brought within the bounds, which may have changed since."""
        return self.default if text is None else min(max(int(text), self.least), self.most)


class MigrationPolicy(Enum):
    """Which groups change their protocol while they have members: classic ones up, consumer groups down."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def upgrades(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def downgrades(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


class ConsumerSettings(Value):
    """Of groups of the consumer protocol: group.consumer.*, and what groups say themselves."""

    session_timeout: Bounded = Bounded(45_000, 45_000, 60_000)
    heartbeat_interval: Bounded = Bounded(5_000, 5_000, 15_000)
    assignment_interval: Bounded = Bounded(1_000, 0, 15_000)
    max_size: int = 2_147_483_647
    assignors: tuple[str, ...] = ("uniform", "range")
    regex_refresh_interval_ms: int = 600_000
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    assigned_at_once: int = 500  # members and partitions; targets for more are worked out in a thread


class ShareSettings(Value):
    """Of share groups: group.share.*, and what groups say themselves."""

    session_timeout: Bounded = Bounded(45_000, 45_000, 60_000)
    heartbeat_interval: Bounded = Bounded(5_000, 5_000, 15_000)
    assignment_interval: Bounded = Bounded(1_000, 0, 15_000)
    max_size: int = 200
    initialize_retry_ms: int = 30_000  # group.share.initialize.retry.interval.ms: the longest pause between tries
    assigned_at_once: int = 500  # members and partitions; targets for more are worked out in a thread


class StreamsSettings(Value):
    """Of streams groups: group.streams.*, and what groups say themselves."""

    session_timeout: Bounded = Bounded(45_000, 45_000, 60_000)
    heartbeat_interval: Bounded = Bounded(5_000, 5_000, 15_000)
    assignment_interval: Bounded = Bounded(1_000, 0, 15_000)
    task_offset_interval: Bounded = Bounded(60_000, 15_000, 2_147_483_647)
    standby_replicas: Bounded = Bounded(0, 0, 2)
    initial_rebalance_delay: Bounded = Bounded(3_000, 0, 2_147_483_647)
    recovery_lag: Bounded = Bounded(10_000, 0, 2**63 - 1)  # group.streams.acceptable.recovery.lag
    max_size: int = 2_147_483_647
    assignors: tuple[str, ...] = ("sticky",)
    rack_aware_tags: tuple[str, ...] = ()  # group.streams.rack.aware.assignment.tags
    assigned_at_once: int = 500  # members and tasks; targets for more are worked out in a thread


class GroupSettings(Value):
    """The comment names Kafka's key where it is not the field's own name."""

    min_session_timeout_ms: int = 6_000  # group.min.session.timeout.ms
    max_session_timeout_ms: int = 1_800_000  # group.max.session.timeout.ms
    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    max_size: int = 2_147_483_647  # group.max.size
    new_member_join_timeout_ms: int = 300_000  # how long a JoinGroup of a member that cannot heartbeat yet may park
    offset_metadata_max_bytes: int = 4_096  # offset.metadata.max.bytes
    offsets_retention_ms: int = 604_800_000  # offsets.retention.minutes
    offsets_retention_check_interval_ms: int = 600_000  # offsets.retention.check.interval.ms
    write_timeout_ms: int = 5_000  # offsets.commit.timeout.ms: how long a write may take to be committed
    members_at_once: int = 100  # how many of a large group are told, or let go, before the loop goes on
    said_bytes: int = 32 * 1024 * 1024  # what members of classic groups may say when they join, in all of a partition
    said_bytes_of_group: int = 4_096  # so much of it may members of one group say whatever others have said
    history_length: int = 20  # how many epochs of a group are told of
    history_bytes: int = 2 * 1024 * 1024  # what that may take of the log, for all groups of a partition
    consumer: ConsumerSettings = ConsumerSettings()
    share: ShareSettings = ShareSettings()
    streams: StreamsSettings = StreamsSettings()
