"""What a group shard asks of the node that runs it. Effects are carried out in the order in which they come."""

from penstock.coordinator.group.history import Rebalance
from penstock.protocol.value import Value

Token = object
"""Stands for a request that waits: the node hands it in with the event and gets it back with the answer."""

KeyValue = tuple[bytes, bytes | None]
"""One record of `__consumer_offsets`; a value of None is a tombstone."""


class Reply(Value):
    """Answer the request that `token` stands for. Each token is answered exactly once."""

    token: Token
    response: object


class Append(Value):
    """Append `records` to the shard's partition as one batch, then report with `GroupShard.appended(write_id, …)`.

    Report when the batch is committed or has failed, and batches in the order of their offsets.
    """

    write_id: int
    records: list[KeyValue]


class Rebalanced(Value):
    """Write down that a rebalance of `group_id` is over: it came to an end, or a newer one took its place."""

    group_id: str
    rebalance: Rebalance


Effect = Reply | Append | Rebalanced
