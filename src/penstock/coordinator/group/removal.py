"""What takes groups and offsets away: DeleteGroups, OffsetDelete, deleted topics, and time.

Offsets expire `offsets.retention.minutes` after their group became Empty (KIP-211); those of a group without group
management, after their own commit, and so do those in topics that no member of a Stable group of consumers subscribes
to; those that named a retention time of their own, by that. An Empty group without offsets goes at the next look. All
of it is written as tombstones and happens when they are committed.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final

from penstock.coordinator.effects import Token
from penstock.coordinator.group.image import Place
from penstock.coordinator.group.kind import Group
from penstock.coordinator.group.records import TOMBSTONES_AT_ONCE, AnyRecord, CommittedOffset, OffsetRecord, in_batches
from penstock.coordinator.group.table import GroupTable
from penstock.coordinator.group.write_errors import group_write_error
from penstock.metadata.image import ClusterImage, TopicImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from penstock.protocol.uuids import ZERO_UUID

EXPIRED_AT_ONCE: Final = 1_000
"""Offsets that are looked at before the event loop gets to do something else, or twice as many."""

GROUP_AS_OFFSETS: Final = 50
"""The end of a group takes as long as a look at so many offsets."""

TOPICS_AT_ONCE: Final = 5_000
"""Topics of groups that are looked for in the metadata before the event loop gets to do something else."""

RETRY_MS: Final = 10_000
"""After a write that failed."""

# -- on request -------------------------------------------------------------------------------------------------------


def delete_group(table: GroupTable, token: Token, group_id: str, now_ms: int) -> None:
    """Its offsets go with it; the answer is an ErrorCode."""
    group = table.groups.get(group_id)
    error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_deletable()
    if group is None or error is not ErrorCode.NONE:
        table.refuse(token, group_write_error, error, now_ms)
    else:
        remove_group(table, group, now_ms, token)


def delete_offsets(table: GroupTable, token: Token, request: OffsetDeleteRequest, now_ms: int) -> None:
    """Only offsets of topics that no member of the group reads (KIP-496)."""
    group = table.groups.get(request.group_id)
    error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_offsets_deletable()
    if group is None or error is not ErrorCode.NONE:
        table.refuse(token, lambda code: OffsetDeleteResponse(error_code=group_write_error(code)), error, now_ms)
        return
    records: list[AnyRecord] = []
    coming = table.coming()
    answer = OffsetDeleteResponse(topics=[_delete_in(table, group, topic, coming, records) for topic in request.topics])

    def response(error: ErrorCode) -> OffsetDeleteResponse:
        return answer if error is ErrorCode.NONE else OffsetDeleteResponse(error_code=group_write_error(error))

    if records:
        table.append(records, now_ms, token=token, answer=response)
    else:
        table.answer_when_committed(token, response, now_ms)  # what is not there may be about to be taken away


def _delete_in(
    table: GroupTable,
    group: Group,
    topic: OffsetDeleteRequestTopic,
    coming: Collection[Place],
    records: list[AnyRecord],
) -> OffsetDeleteResponseTopic:
    """The tombstones that it takes are added to `records`. Only what the request names is looked at."""
    error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed(topic.name) else ErrorCode.NONE
    indexes = [partition.partition_index for partition in topic.partitions]
    if error is ErrorCode.NONE:
        places = [(group.group_id, topic.name, index) for index in indexes]
        records += [OffsetRecord(*one, None) for one in places if table.image.may_have(one) or one in coming]
    results = [OffsetDeleteResponsePartition(partition_index=index, error_code=error) for index in indexes]
    return OffsetDeleteResponseTopic(name=topic.name, partitions=results)


# -- topics that are gone ---------------------------------------------------------------------------------------------


def forget_topics(table: GroupTable, cluster: ClusterImage, names: Iterable[str], now_ms: int) -> None:
    """Take away what groups have in these topics, which are gone now, by and by. No other is looked at."""
    ahead = {topic for _, topic, _ in table.coming()}
    _forget(table, cluster, {name: now_ms for name in names if name in ahead or table.image.has_any_in(name)}, now_ms)


def look_for_gone(table: GroupTable, cluster: ClusterImage, now_ms: int) -> None:
    """Take away what groups have in topics that are not there, by and by: it may be any of theirs."""
    table.start_timer(_look_at_some, now_ms, table, cluster, table.topics(), {})


def _look_at_some(
    table: GroupTable, cluster: ClusterImage, left: Iterator[str], gone_ms: dict[str, int], now_ms: int
) -> None:
    some = list(islice(left, TOPICS_AT_ONCE))
    gone_ms.update((topic, now_ms) for topic in some if topic not in cluster.topics)
    if len(some) == TOPICS_AT_ONCE:
        table.start_timer(_look_at_some, now_ms + 1, table, cluster, left, gone_ms)
    else:
        _forget(table, cluster, gone_ms, now_ms)


def _forget(table: GroupTable, cluster: ClusterImage, gone_ms: Mapping[str, int], now_ms: int) -> None:
    if gone_ms:
        table.start_timer(_Walk(table, cluster, gone_ms).go_on, now_ms)


class _Walk:
    """Over the offsets in topics that are gone, some at a time. Where that cannot be written it begins again.

    A topic of that name may be made meanwhile: what was committed since is the new one's and stays, all else goes.
    """

    def __init__(self, table: GroupTable, cluster: ClusterImage, gone_ms: Mapping[str, int]) -> None:
        """`gone_ms`: by topic, when it was gone."""
        self._table = table
        self._cluster = cluster
        self._gone_ms = gone_ms
        self._left = table.places_in(gone_ms)
        self._has_failed = False

    def go_on(self, now_ms: int) -> None:
        some = list(islice(self._left, TOMBSTONES_AT_ONCE))
        for batch in in_batches(OffsetRecord(*place, None) for place in dict.fromkeys(self._left_behind(some))):
            self._table.append(batch, now_ms, then=self._wrote)
        if len(some) == TOMBSTONES_AT_ONCE:
            self._table.start_timer(self.go_on, now_ms + 1)

    def _left_behind(self, places: Collection[Place]) -> Iterator[Place]:
        """Those in which nothing is of a topic that is there, nor will be when a transaction ends."""
        topics, image = self._cluster.topics, self._table.image
        coming = self._table.coming() if any(place[1] in topics for place in places) else {}
        for place in places:
            topic = topics.get(place[1])
            if topic is None:
                yield place
                continue
            pending = (record.value for record in image.pending.at(place))
            known = [one for one in (image.offset_at(place), *pending, *coming.get(place, ())) if one is not None]
            if not any(_is_of(topic, one, self._gone_ms[place[1]]) for one in known):
                yield place

    def _wrote(self, error: ErrorCode, now_ms: int) -> None:
        if error is not ErrorCode.NONE and not self._has_failed:
            self._has_failed = True
            again_ms = now_ms + RETRY_MS
            self._table.start_timer(_forget, again_ms, self._table, self._cluster, self._gone_ms)


def _is_of(topic: TopicImage, committed: CommittedOffset, gone_ms: int) -> bool:
    """And not of an earlier topic of that name, which was gone at that time. A commit by name says only when it was."""
    if committed.topic_id == ZERO_UUID:
        return committed.commit_timestamp_ms >= gone_ms
    return committed.topic_id == topic.topic_id


# -- by time ----------------------------------------------------------------------------------------------------------


def schedule_expiry(table: GroupTable, now_ms: int) -> None:
    table.start_timer(_begin_expiry, now_ms + table.settings.offsets_retention_check_interval_ms, table)


def _begin_expiry(table: GroupTable, now_ms: int) -> None:
    _Expiry(table).go_on(now_ms)


class _Expiry:
    """A look at all groups, with a bounded number of offsets in one call."""

    def __init__(self, table: GroupTable) -> None:
        self._table = table
        self._group_ids = deque(table.groups)
        self._left: Iterator[Place] | None = None
        """Of the first group; None if nothing of it was looked at yet."""

    def go_on(self, now_ms: int) -> None:
        found = _Expired(self._table)
        looked_at = 0
        while self._group_ids and looked_at < EXPIRED_AT_ONCE:
            looked_at += 1 + self._look_at(self._group_ids[0], found, now_ms)
        found.take_away(now_ms)
        if self._group_ids:
            self._table.start_timer(self.go_on, now_ms + 1)
        else:
            schedule_expiry(self._table, now_ms)

    def _look_at(self, group_id: str, found: "_Expired", now_ms: int) -> int:
        """At some offsets of the first group. Returns how many, or as how many it counts."""
        table = self._table
        if self._left is None:
            self._left = table.image.offset_places(group_id)
        some = list(islice(self._left, EXPIRED_AT_ONCE))
        is_end = len(some) < EXPIRED_AT_ONCE
        group = table.groups.get(group_id)
        is_going = group is not None and found.add(group, some, now_ms, may_go=is_end)
        if is_end:
            self._group_ids.popleft()
            self._left = None
        return len(some) + (GROUP_AS_OFFSETS if is_going else 0)


class _Expired:
    """What one call finds of all groups that it looks at: many may have little, and it is written together."""

    def __init__(self, table: GroupTable) -> None:
        self._table = table
        self._coming = table.coming()
        self._groups_ahead = {group_id for group_id, _, _ in self._coming}
        self._places: list[Place] = []
        self._groups: list[Group] = []

    def add(self, group: Group, places: Sequence[Place], now_ms: int, *, may_go: bool) -> bool:
        """What is pending keeps an offset, and so does what is coming. With its last offsets the group goes: whether it
        does.
        """
        table, image, coming = self._table, self._table.image, self._coming
        expired = [
            place
            for place in places
            if (committed := image.offset_at(place)) is not None
            and not group.is_reading(place[1])
            and now_ms >= _expires_ms(table, group, committed)
            and not (image.pending and image.pending.has(*place))
            and place not in coming
        ]
        is_going = may_go and group.may_expire and not self._may_keep_any(group.group_id, len(expired))
        if is_going:
            self._groups.append(group)
        else:
            self._places += expired
        return is_going

    def _may_keep_any(self, group_id: str, expired: int) -> bool:
        """Whether a group has more offsets than those, or may get some when a transaction ends. What expired before is
        taken away already.
        """
        image = self._table.image
        has_more = len(list(islice(image.offset_places(group_id), expired + 1))) > expired
        return has_more or image.pending.has_group(group_id) or group_id in self._groups_ahead

    def take_away(self, now_ms: int) -> None:
        for batch in in_batches(OffsetRecord(*place, None) for place in self._places):
            self._table.append(batch, now_ms)
        if self._groups:
            _remove(self._table, self._groups, (), now_ms)


def _expires_ms(table: GroupTable, group: Group, committed: CommittedOffset) -> int:
    if committed.expire_timestamp_ms != -1:
        return committed.expire_timestamp_ms
    return group.idle_since_ms(committed) + table.settings.offsets_retention_ms


# -- writing ----------------------------------------------------------------------------------------------------------


def remove_group(table: GroupTable, group: Group, now_ms: int, token: Token | None = None) -> None:
    """`token` gets an ErrorCode. No member joins while tombstones are under way; if one fails, the group is back."""
    _remove(table, [group], table.coming(), now_ms, token)


def _remove(
    table: GroupTable, groups: Sequence[Group], coming: Collection[Place], now_ms: int, token: Token | None = None
) -> None:
    for group in groups:
        group.kill(now_ms)
    _Removal(table, groups, coming, token).go_on(ErrorCode.NONE, now_ms)


class _Removal:
    """Of some groups: a batch of tombstones at a time, those of all offsets first, and those of groups last."""

    def __init__(
        self, table: GroupTable, groups: Sequence[Group], coming: Collection[Place], token: Token | None
    ) -> None:
        """Offsets that are `coming` go as well."""
        self._table = table
        self._groups = groups
        self._token = token
        names = [group.group_id for group in groups]
        offsets = (OffsetRecord(*place, None) for name in names for place in table.places(name, coming))
        histories = (one for name in names for one in table.image.histories.tombstones(name))
        ends = (one for group in groups for one in group.tombstones())
        self._batches = in_batches(chain(offsets, histories, ends))
        self._next = next(self._batches, [])
        self._is_over = False

    def go_on(self, error: ErrorCode, now_ms: int) -> None:
        if error is not ErrorCode.NONE:
            self._failed(error, now_ms)
        if self._is_over:
            return
        some, following = self._next, next(self._batches, None)
        if following is None:
            self._is_over = True
            self._table.append(some, now_ms, then=self._ended, token=self._token, answer=group_write_error)
        else:
            self._next = following
            self._table.append(some, now_ms, then=self._failed)
            self._table.pause(self.go_on, now_ms + 1)

    def _failed(self, error: ErrorCode, now_ms: int) -> None:
        """One before the last is written, or is not. Where the last one is on its way it fails with it."""
        if error is not ErrorCode.NONE and not self._is_over:
            self._is_over = True
            self._ended(error, now_ms)
            self._table.reply(self._token, group_write_error(error))

    def _ended(self, error: ErrorCode, now_ms: int) -> None:
        table = self._table
        for group in self._groups:
            table.drop_group(group, now_ms)
            if error is not ErrorCode.NONE or table.image.offsets(group.group_id):  # a transaction's, ended meanwhile
                table.restore_group(group.group_id, now_ms)
