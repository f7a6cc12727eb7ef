"""The active controller goes to another voter on purpose: no decision is in doubt, and no command is refused.

`penstock.leadership.transfer` says what is to be done, as for a partition: the successor gets all that the log has, the
controller decides nothing more until it has, and then the quorum's leader resigns and lets it stand first. Commands
that come meanwhile wait in the queue. When another node leads they are told NOT_CONTROLLER, and brokers ask that one.

A successor that does not get there in time is still preferred; any elected voter has what is committed.
"""

import asyncio
from typing import Final, Protocol

from penstock.leadership.transfer import Cause, Effect, Limits, State, Transfer
from penstock.raft.describe import QuorumDescription

LOOK_S: Final = 0.002
LIMITS: Final = Limits(hold_ms=1_000, silent_ms=2_000)
"""An election takes a few messages; a command that waits for longer is refused, and asked again."""
DONE: Final = (State.FORWARDING, State.OVER)


class Deciding(Protocol):
    def hold(self) -> None: ...

    def go_on(self) -> None: ...


class Led(Protocol):
    @property
    def leader_id(self) -> int | None: ...

    @property
    def epoch(self) -> int: ...

    @property
    def applied_offset(self) -> int:
        """All before it is committed, and its appenders were told."""

    @property
    def log_end_offset(self) -> int: ...

    def is_leader(self, epoch: int) -> bool: ...

    def describe(self) -> QuorumDescription: ...

    def resign(self, successor_id: int | None = None) -> None:
        """Let this one stand first."""


async def hand_over(quorum: Led, controller: Deciding, successor_id: int) -> None:
    """This node leads. Returns when another node does, or when it is clear that the next leader is unknown."""
    loop, epoch = asyncio.get_running_loop(), quorum.epoch
    machine = Transfer(successor_id, epoch, quorum.log_end_offset, LIMITS, int(loop.time() * 1000))
    try:
        while machine.state not in DONE:
            now_ms = int(loop.time() * 1000)
            effects = [*_seen(quorum, machine, epoch, now_ms), *machine.on_time(now_ms)]
            for effect in effects:
                if effect is Effect.HOLD:
                    controller.hold()
                elif effect is Effect.ASK:
                    quorum.resign(successor_id)
                else:
                    controller.go_on()
            if not effects:
                await asyncio.sleep(LOOK_S)
    finally:
        controller.go_on()
    if machine.cause in (Cause.LAGS, Cause.SLOW) and quorum.is_leader(epoch):
        quorum.resign(successor_id)


def _seen(quorum: Led, machine: Transfer, epoch: int, now_ms: int) -> list[Effect]:
    if quorum.is_leader(epoch):
        ends = [voter.log_end_offset for voter in quorum.describe().voters if voter.key.id == machine.successor]
        reached = min(quorum.applied_offset, *ends)
        return list(machine.on_committed(reached, quorum.log_end_offset, now_ms)) if ends else []
    if quorum.leader_id is None:
        return []
    return list(machine.on_leader(quorum.leader_id, quorum.epoch, is_self=quorum.is_leader(quorum.epoch)))
