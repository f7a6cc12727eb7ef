"""A leader of the consensus core, and what its followers fetch."""

from typing import Any

from tests.unit.raft.replicas import elect, log_of, quorum, raft_of, voter

from penstock.raft.effects import Effect
from penstock.raft.machine import Raft
from penstock.raft.requests import (
    Fetch,
)


def leader(*ids: int, epochs: tuple[int, ...] = ()) -> tuple[Raft, int]:
    """Node 1 leads, its own disk is up to date; and the time."""
    raft = raft_of(1, quorum(*ids), log_of(*epochs))
    raft.start(0)
    if epochs:
        raft.flushed(0)
    now_ms = elect(raft)
    raft.flushed(now_ms)
    return raft, now_ms


def fetch(raft: Raft, node_id: int, end: int, now_ms: int, **more: Any) -> list[Effect]:
    log = raft.replica.log
    last_epoch = log.epoch_at(end - 1) if 0 < end <= log.end_offset else 0
    request = Fetch(raft.epoch, voter(node_id).key, end, last_epoch, raft.high_watermark, 500, 1 << 20)
    return raft.received(request.replace(**more), f"fetch of {node_id}", now_ms)


def commit_start(raft: Raft, now_ms: int) -> None:
    """The first follower has the record that begins the epoch."""
    fetch(raft, 2, raft.replica.log.end_offset, now_ms)
    assert raft.high_watermark == raft.replica.log.end_offset
