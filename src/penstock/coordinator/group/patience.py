"""What happens when a member lets a time pass: after a part of it the member is named, and at its end it is put out."""

from collections.abc import Callable
from typing import Any

from penstock.coordinator.group.assigned_group import RevokingGroup
from penstock.coordinator.group.settings import patience_ms
from penstock.coordinator.group.table import GroupTable
from penstock.protocol.requests.own_apis import What

Fence = Callable[[What, str, int], None]
"""Takes why, in a word and in words, and the time."""


def session_passes(
    table: GroupTable, group: RevokingGroup[Any, Any], member_id: str, timeout_ms: int, fence: Fence, now_ms: int
) -> None:
    if member_id in group.late:
        group.stop_session(member_id)
        fence(What.SESSION_TIMEOUT, f"sent no heartbeat for {timeout_ms} ms", now_ms)
        return
    passed_ms = patience_ms(timeout_ms)
    group.late[member_id] = now_ms - passed_ms
    table.timers.set(group.sessions[member_id], now_ms + timeout_ms - passed_ms)
    name(table, group, member_id, f"has sent no heartbeat for {passed_ms} ms", timeout_ms - passed_ms, now_ms)


def rebalance_passes(
    table: GroupTable, group: RevokingGroup[Any, Any], member_id: str, what: str, fence: Fence, now_ms: int
) -> None:
    """`what` the member has to give up still, which it was told in the epoch in which it is."""
    wait = group.rebalances[member_id]
    if now_ms < wait.until_ms:
        timer = table.start_timer(wait.timer.fire, wait.until_ms, *wait.timer.of)
        group.rebalances[member_id] = wait.replace(timer=timer)
        why = f"has {what} to give up since {now_ms - wait.since_ms} ms"
        name(table, group, member_id, why, wait.until_ms - now_ms, now_ms)
    else:
        fence(What.REBALANCE_TIMEOUT, f"has not given up its {what.split()[-1]} within its rebalance timeout", now_ms)


def name(
    table: GroupTable, group: RevokingGroup[Any, Any], member_id: str, why: str, left_ms: int, now_ms: int
) -> None:
    table.name(f"group {group.group_id}: member {member_id} {why}, and is out in {left_ms} ms", now_ms)
