"""What a machine on a partition asks of the node that runs it: effects, which are carried out in their order."""

from penstock.protocol.value import Value

Token = object
"""Stands for a request that waits: the node hands it in with the event and gets it back with the answer."""

KeyValue = tuple[bytes, bytes | None]
"""A value of None is a tombstone."""


class Reply(Value):
    """Each token is answered exactly once."""

    token: Token
    response: object


class Append(Value):
    """One batch; when it is committed or has failed, report `appended(write_id, …)`, in the order of offsets."""

    write_id: int
    records: list[KeyValue]


class Note(Value):
    line: str


Effect = Reply | Append | Note
