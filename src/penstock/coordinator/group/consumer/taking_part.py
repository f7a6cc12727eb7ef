"""What follows when a member has said what it reads and has, by whichever protocol: the records, and the timers.

`decide` writes what the member says of itself, the group's next epoch if that calls for one, targets if they are due,
and what the member has from now on. `take_effect` follows where nothing refuses it any more.
"""

from penstock.coordinator.group.consumer import assigning, fencing, reconcile, resolving, timing
from penstock.coordinator.group.consumer.assignors.spec import Spec
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.records import CURRENT, MEMBER, TARGET
from penstock.coordinator.group.consumer.table import ConsumerTable, put
from penstock.coordinator.group.consumer.values import Current, Subscription
from penstock.coordinator.group.epochs import JOINS
from penstock.coordinator.group.records import AnyRecord
from penstock.coordinator.machine import Draft
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.value import Value

NOBODY = Subscription()


class Decided(Value):
    current: Current
    elsewhere: Spec | None
    """What targets are to be worked out of that take long."""


def check_room(house: ConsumerTable, group: ConsumerGroup, member_id: str, instance_id: str | None) -> None:
    """Raises KafkaError(GROUP_MAX_SIZE_REACHED)."""
    state, most = group.state, house.settings.max_size
    is_known = member_id in state.members or (instance_id is not None and instance_id in state.static_ids)
    if not is_known and len(state.members) >= most:
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"group.consumer.max.size={most} lets no more members in")


def take_over(draft: Draft[AnyRecord], group: ConsumerGroup, holder: str, member_id: str) -> Current:
    """A static member has its place, its target too, under its new id."""
    state, group_id = group.state, group.group_id
    member, target, current = state.members[holder], state.target(holder), state.current(holder)
    fencing.take_out(draft, group, holder)
    taken = current.replace(epoch=JOINS, previous_epoch=JOINS)
    put(draft, group_id, MEMBER, member_id, member)
    put(draft, group_id, TARGET, member_id, target)
    put(draft, group_id, CURRENT, member_id, taken)
    return taken


def decide(
    house: ConsumerTable,
    draft: Draft[AnyRecord],
    group: ConsumerGroup,
    member_id: str,
    member: Subscription,
    owned: reconcile.Said | None,
    now_ms: int,
) -> Decided:
    """Raises KafkaError; the caller takes the draft back."""
    has_changed = _subscribe(house, draft, group, member_id, member)
    spec = assigning.due(house, group, now_ms)
    is_long = spec is not None and spec.size > house.settings.assigned_at_once
    if spec is not None and not is_long:
        assigning.assign(house, draft, group, spec, now_ms)
    assigning.begin(draft, group)
    current = _reconcile(house, draft, group, member_id, owned, subscription_changed=has_changed)
    return Decided(current, spec if is_long else None)


def take_effect(house: ConsumerTable, group: ConsumerGroup, member_id: str, decided: Decided, now_ms: int) -> None:
    group.checked_version = house.topics.version
    if house.table.groups.get(group.group_id) is not group:
        house.table.take_place(group, now_ms)
        timing.settle(house, group, now_ms)
    timing.touch(house, group, member_id, now_ms)
    timing.follow(house, group, member_id, now_ms)
    if len(group.sessions) > len(group.state.members):
        timing.settle(house, group, now_ms)  # a static member's place was taken
    if decided.elsewhere is not None:
        assigning.send(house, group, decided.elsewhere)


def _subscribe(
    house: ConsumerTable, draft: Draft[AnyRecord], group: ConsumerGroup, member_id: str, member: Subscription
) -> bool:
    """Write what the member says, and the group's next epoch if that calls for one. Whether it reads other topics."""
    state = group.state
    before = state.members.get(member_id, NOBODY)
    assignor = state.preferred_assignor(house.settings.assignors)
    names_changed, expression_changed = member.topics != before.topics, member.pattern != before.pattern
    is_resolved = False
    if expression_changed:
        is_resolved = _check_expression(group, before, member)
    if member != before or member_id not in state.members:
        put(draft, group.group_id, MEMBER, member_id, member)
        if expression_changed:
            fencing.drop_unread_expressions(draft, group)
    state = group.state
    if (
        names_changed
        or is_resolved
        or state.preferred_assignor(house.settings.assignors) != assignor
        or (group.checked_version != house.topics.version and _are_other_topics(house, group))
    ):
        fencing.next_epoch(house, draft, group)
    return names_changed or expression_changed


def _are_other_topics(house: ConsumerTable, group: ConsumerGroup) -> bool:
    """Whether some that are read have come, gone, or have other partitions or racks."""
    known = group.state.group.metadata_hash
    return house.topics.hash_of(group.state.topics, known) != known


def _check_expression(group: ConsumerGroup, before: Subscription, member: Subscription) -> bool:
    """Whether it is known already what the new one matches. Raises KafkaError(INVALID_REGULAR_EXPRESSION)."""
    if not member.pattern:
        return bool(before.pattern)
    state = group.state
    if not state.readers(member.pattern):
        gives_up_one = before.pattern is not None and state.readers(before.pattern) == 1
        resolving.check(member.pattern, len(state.wanted_expressions) - gives_up_one)
    return member.pattern in state.expressions


def _reconcile(
    house: ConsumerTable,
    draft: Draft[AnyRecord],
    group: ConsumerGroup,
    member_id: str,
    owned: reconcile.Said | None,
    *,
    subscription_changed: bool,
) -> Current:
    state = group.state
    current, epoch = state.current(member_id), state.assignment.epoch
    if not subscription_changed and current.is_reconciled_to(epoch):
        return current
    names, name_of = state.topics_of(state.members[member_id]), house.topics.name_of
    wanted = reconcile.Wanted(
        epoch,
        state.target(member_id),
        lambda topic: name_of(topic) in names,
        lambda topic, partition: (topic, partition) in state.owners,
    )
    following = reconcile.reconciled(current, wanted, owned, subscription_changed=subscription_changed)
    if following != current:
        put(draft, group.group_id, CURRENT, member_id, following)
    return following
