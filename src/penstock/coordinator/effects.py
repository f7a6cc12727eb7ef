"""What a machine on a partition asks of the node that runs it: effects, which are carried out in their order."""

from penstock.protocol.value import Value

Token = object
"""Stands for a request that waits: the node hands it in with the event and gets it back with the answer."""

KeyValue = tuple[bytes, bytes | None]
"""One record of the machine's partition; a value of None is a tombstone."""


class Reply(Value):
    """Answer the request that `token` stands for. Each token is answered exactly once."""

    token: Token
    response: object


class Append(Value):
    """Append `records` to the machine's partition as one batch, then report with `appended(write_id, …)`.

    Report when the batch is committed or has failed, and batches in the order of their offsets.
    """

    write_id: int
    records: list[KeyValue]


class Note(Value):
    """Write `line` into the node's log, for people."""

    line: str


Effect = Reply | Append | Note
