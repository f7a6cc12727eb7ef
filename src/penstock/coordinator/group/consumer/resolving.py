"""Which topics the expressions of a group match: looked for in a thread, and written when it is known.

A group's expressions are looked at together, at most each `LEAST_PAUSE_MS`: when one is new, when there are new topics,
and after `group.consumer.regex.refresh.interval.ms`. A topic counts only if the member that asked may know of it. All
of a group together may take as long as one.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Final

from penstock.coordinator.effects import Calculation
from penstock.coordinator.group.consumer import fencing, timing
from penstock.coordinator.group.consumer.elsewhere import SLICE_MS
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.records import EXPRESSION
from penstock.coordinator.group.consumer.table import ConsumerTable, put
from penstock.coordinator.group.consumer.values import Resolved
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.expressions.matcher import MOST_WORK, Matcher
from penstock.protocol.expressions.parse import ExpressionError

LEAST_PAUSE_MS: Final = 10_000
NAMES_AT_ONCE: Final = 2_000
"""Names of topics that are looked at, and written by one batch, before the loop goes on; of one expression all are."""
BYTES_AT_ONCE: Final = 900_000
"""Of names of topics, in one batch: a little less than the offsets topic takes (max.message.bytes)."""
LENGTH_BYTES: Final = 2
"""Before each name."""

MOST_EXPRESSIONS: Final = 100
"""Different ones of a group; members nearly always have the same."""

MayDescribe = Callable[[str], bool]
"""Whether a client may know of a topic."""

_Matches = dict[str, tuple[str, ...]]
_Refusals = dict[str, str]
"""Expressions that match nothing, and why."""


def check(expression: str, others: int) -> None:
    """A new one of a group that has so many others. Raises KafkaError(INVALID_REGULAR_EXPRESSION)."""
    if others >= MOST_EXPRESSIONS:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"the group has {others} different regular expressions already; at most {MOST_EXPRESSIONS} are served",
        )
    try:
        Matcher(expression)
    except ExpressionError as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{expression}: {error}") from error


def resolve_if_due(house: ConsumerTable, group: ConsumerGroup, may_describe: MayDescribe, now_ms: int) -> None:
    state, topics = group.state, house.topics
    wanted = state.wanted_expressions
    if not wanted or group.is_resolving:
        return
    resolved = next(iter(state.expressions.values()), None)
    if resolved is not None and resolved.timestamp_ms <= now_ms:  # or else of a clock that was set back, or of another
        if now_ms <= resolved.timestamp_ms + LEAST_PAUSE_MS:
            return
        is_new = len(wanted) != len(state.expressions) or resolved.version < topics.new_topics_offset
        if not is_new and now_ms <= resolved.timestamp_ms + house.settings.regex_refresh_interval_ms:
            return
    group.is_resolving = True
    version, names = topics.offset, topics.names()
    then = partial(_matched, house, group, may_describe, version, now_ms)
    house.table.send(Calculation(partial(_match, wanted, names), in_turn=True), then)


def _match(expressions: Sequence[str], names: Sequence[str]) -> tuple[_Matches, _Refusals]:
    found: _Matches = {}
    refused: _Refusals = {}
    most_work = MOST_WORK
    for expression in expressions:
        found[expression], matcher = (), None
        try:
            matcher = Matcher(expression, most_work=most_work)
            found[expression] = tuple(sorted(filter(matcher.matches, names)))
        except ExpressionError as error:  # one that takes too long, or of a coordinator that knows more
            refused[expression] = str(error)
        if matcher is not None:
            most_work -= matcher.work
    return found, refused


def _matched(
    house: ConsumerTable,
    group: ConsumerGroup,
    may_describe: MayDescribe,
    version: int,
    began_ms: int,
    found: tuple[_Matches, _Refusals] | None,
    error: ErrorCode,
    now_ms: int,
) -> None:
    if found is None:
        group.is_resolving = False
        return
    matches, refused = found
    for expression, why in refused.items():
        line = f"group {group.group_id}: {expression} matches no topics, and its members lose them: {why}"
        house.table.name(line, now_ms)
    _write_some(house, group, may_describe, version, began_ms, deque(matches.items()), now_ms)


def _write_some(
    house: ConsumerTable,
    group: ConsumerGroup,
    may_describe: MayDescribe,
    version: int,
    began_ms: int,
    left: deque[tuple[str, tuple[str, ...]]],
    now_ms: int,
) -> None:
    """Those of some `NAMES_AT_ONCE`, in a batch of their own: each leaves the group with what is known so far."""
    draft, state, has_changed, looked_at, room = house.table.draft(), group.state, False, 0, BYTES_AT_ONCE
    is_there = not group.is_dead
    while is_there and left and looked_at < NAMES_AT_ONCE:
        expression, names = left[0]
        topics = _fitting(house, group, expression, tuple(name for name in names if may_describe(name)))
        room -= _size(topics)
        if room < 0 and draft.records:
            break
        left.popleft()
        looked_at += 1 + len(names)
        if not state.readers(expression):
            continue
        before = state.expressions.get(expression)
        has_changed |= topics != (() if before is None else before.topics)
        put(draft, group.group_id, EXPRESSION, expression, Resolved(topics, version, began_ms))
    group.is_resolving = is_there and bool(left)
    if group.is_resolving:
        house.table.start_timer(_write_some, now_ms + SLICE_MS, house, group, may_describe, version, began_ms, left)
    known = state.group.metadata_hash
    if has_changed or (not left and house.topics.hash_of(state.topics, known) != known):
        fencing.next_epoch(house, draft, group)
    house.write(draft, now_ms, then=partial(timing.wrote, house, group))


def _fitting(house: ConsumerTable, group: ConsumerGroup, expression: str, topics: tuple[str, ...]) -> tuple[str, ...]:
    """The first of these, as many as one record holds: it could never be written with more."""
    if _size(topics) <= BYTES_AT_ONCE:
        return topics
    sizes = accumulate(len(topic) + LENGTH_BYTES for topic in topics)
    fitting = topics[: sum(size <= BYTES_AT_ONCE for size in sizes)]
    left_out = len(topics) - len(fitting)
    house.table.note(
        f"group {group.group_id}: {expression} matches more topics than a record holds, and {left_out:,} of them, from"
        f" {topics[len(fitting)]} on, are not read: name fewer by each of several expressions"
    )
    return fitting


def _size(topics: tuple[str, ...]) -> int:
    """What they take in a record, in bytes; names of topics are of ASCII."""
    return sum(map(len, topics)) + LENGTH_BYTES * len(topics)
