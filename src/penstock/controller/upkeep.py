"""What the active controller does without being asked, when it is time.

| what | when |
| --- | --- |
| moves go on that were too many for one decision | at once |
| a broker that has been silent for too long is fenced | when its session ends |
| a partition without a leader gets an outdated one where that is allowed | `unclean.leader.election.interval.ms` |
| the same | when a config changes where it is allowed |
| delegation tokens that have expired are removed | `delegation.token.expiry.check.interval.ms` |
| limits of moves are taken away | when nothing has been on the move for a while |
| leadership returns to the preferred replicas, one partition at a time | as the balancer says (`penstock.leadership`) |
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from penstock.controller.brokers import fence_silent_broker
from penstock.controller.decision import ControllerState
from penstock.controller.moves import finish, led_anew
from penstock.controller.partition_change import Electorate, Wanted, changed
from penstock.metadata.image import ClusterImage, PartitionImage, ResourceType
from penstock.metadata.partition_index import each
from penstock.metadata.records import ConfigRecord, MetadataRecord

MAX_ELECTIONS = 1_000
"""Elections that no client waits for: the most in one decision, as in Kafka."""

UNTIL_MOVED = "penstock.replication.throttled.until.moved"
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LISTS: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
ALL_REPLICAS: Final = "*"
AT_ONCE: Final = 1_000
"""Records of one decision."""


class Upkeep:
    """Begins with the first decision of a controller that took over."""

    def __init__(self, state: ControllerState) -> None:
        self._state = state
        self._has_begun = False
        self._next_unclean_ms: int | None = None
        self._next_tokens_ms: int | None = None
        self._view = _View(state)
        self._limits = MoveLimits(state.settings.unused_limits_ms)

    def begin(self, now_ms: int) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._state.heartbeats.begin(self._state.image, now_ms)
            self._next_unclean_ms = _later(now_ms, self._state.settings.unclean_election_interval_ms)
            self._next_tokens_ms = None if self._state.settings.tokens is None else now_ms
            self._state.balancer.begin(self._view, self._state.next_offset, now_ms)

    @property
    def next_deadline_ms(self) -> int | None:
        """0 is at once, None is never."""
        if not self._has_begun or not self._state.heartbeats.is_finished or self._state.unclean_is_due:
            return 0
        deadlines = (
            self._state.heartbeats.deadline_ms,
            self._next_unclean_ms,
            self._next_tokens_ms,
            self._state.balancer.deadline_ms(self._view),
            self._limits.deadline_ms(self._state.image),
        )
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def due(self, now_ms: int) -> list[MetadataRecord]:
        """Records of one thing; empty if nothing is due."""
        for broker_id in list(self._state.heartbeats.unfinished):
            records = finish(self._state, broker_id)
            if records:
                return records
        return (
            fence_silent_broker(self._state, now_ms)
            or self._elect_uncleanly(now_ms)
            or self._remove_tokens(now_ms)
            or self._balance(now_ms)
            or self._limits.due(self._state.image, now_ms)
        )

    def _remove_tokens(self, now_ms: int) -> list[MetadataRecord]:
        settings = self._state.settings.tokens
        if settings is None or self._next_tokens_ms is None or now_ms < self._next_tokens_ms:
            return []
        records = list[MetadataRecord]()
        if self._state.image.security.delegation_tokens:
            from penstock.controller.delegation_tokens import expired_tokens

            records = expired_tokens(self._state, now_ms)
        if not records:
            self._next_tokens_ms = now_ms + settings.check_interval_ms
        return records

    def _elect_uncleanly(self, now_ms: int) -> list[MetadataRecord]:
        is_time = self._next_unclean_ms is not None and now_ms >= self._next_unclean_ms
        if not is_time and not self._state.unclean_is_due:
            return []
        records = list(islice(self._unclean(), MAX_ELECTIONS))
        self._state.unclean_is_due &= bool(records)
        if is_time and len(records) < MAX_ELECTIONS:
            self._next_unclean_ms = _later(now_ms, self._state.settings.unclean_election_interval_ms)
        return records

    def _balance(self, now_ms: int) -> list[MetadataRecord]:
        state = self._state
        move = state.balancer.act(self._view, state.next_offset, now_ms)
        if move is None:
            return []
        record = changed(Electorate(state), state.image.topics[move.topic], move.index, Wanted(leader=move.taker))
        assert record is not None, "the balancer moves what can be moved"
        return [record]

    def _unclean(self) -> Iterator[MetadataRecord]:
        for topic, index in each(self._state.image.index.leaderless):
            record = led_anew(self._state, topic, index)
            if record is not None:
                yield record


class _View:
    def __init__(self, state: ControllerState) -> None:
        self._state = state
        self._electorate = Electorate(state)

    @property
    def image(self) -> ClusterImage:
        return self._state.image

    def may_lead(self, partition: PartitionImage, broker_id: int) -> bool:
        """Whether it is active, and its replica's directory is not offline."""
        return self._electorate.may_lead(partition, broker_id)

    def have_seen(self, offset: int, broker_ids: Iterable[int]) -> bool:
        return self._state.heartbeats.seen_by(self._state.image, offset, broker_ids)


def _later(now_ms: int, interval_ms: int | None) -> int | None:
    return None if interval_ms is None else now_ms + interval_ms


class MoveLimits:
    """Limits of replication that were set for moves end with these, whatever became of the client that set them.

    UNTIL_MOVED says that the limits are of this kind. Once nothing has been on the move for a while, the rates of
    brokers, the lists of topics, and that key are taken away. Clients set limits before a move begins, and may move one
    batch after the other, so nothing is taken away sooner. A topic's list that stands for all its replicas stays: it is
    set by hand, for what is no move. Until when unused limits stay is soft state.
    """

    def __init__(self, unused_ms: int) -> None:
        self._unused_ms = unused_ms
        self._end_ms: int | None = None

    def deadline_ms(self, image: ClusterImage) -> int | None:
        if _are_unused(image) != (self._end_ms is not None):
            return 0
        return self._end_ms

    def due(self, image: ClusterImage, now_ms: int) -> list[MetadataRecord]:
        if not _are_unused(image):
            self._end_ms = None
        elif self._end_ms is None:
            self._end_ms = now_ms + self._unused_ms
        elif now_ms >= self._end_ms:
            return list(islice(_ended(image), AT_ONCE))
        return []


def _are_unused(image: ClusterImage) -> bool:
    return image.config_of(ResourceType.BROKER, "").get(UNTIL_MOVED) == "true" and not image.index.reassigning


def _ended(image: ClusterImage) -> Iterator[MetadataRecord]:
    """The key that says so comes last: what is too much for one decision is in the next one."""
    for resource, values in image.configs.items():
        of_moves = {ResourceType.TOPIC: LISTS, ResourceType.BROKER: RATES}.get(resource.resource_type, ())
        for key in of_moves:
            if key in values and values[key] != ALL_REPLICAS:
                yield _without(resource.resource_type, resource.name, key)
    yield _without(ResourceType.BROKER, "", UNTIL_MOVED)


def _without(resource_type: ResourceType, name: str, key: str) -> ConfigRecord:
    return ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=None)
