"""What is replicated: keys and values, and how far each client's session has come.

The store is made by the records of the log alone and by their order, so it is the same on every server that has applied
as many. There are two kinds of record; what else a record says stands in its headers, as text, so that
`penstock dump-log --print-data-log` shows a log that people can read:

| record       | key | value | headers                            |
| ------------ | --- | ----- | ---------------------------------- |
| set          | yes | yes   | `session`, `sequence`              |
| open session | no  | empty | `open`; its offset is the session  |

A set that is tried again, because its answer was lost, is the same session and sequence again, and is applied once: a
session's sequences only go up. A session that was forgotten cannot set anything, so nothing is ever applied twice;
sessions are forgotten when there are too many, the one first that was silent for longest, counted in records.
"""

from collections.abc import Iterator
from typing import Final

from examples.raft_kv.values import Values
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record
from penstock.replicated.machine import StateMachine

MAX_SESSIONS = 10_000

SESSION, SEQUENCE, OPEN = "session", "sequence", "open"
OPEN_HEADERS: Final[list[tuple[str, bytes | None]]] = [(OPEN, None)]


class Store(StateMachine[int | None]):
    """The state machine; `values` are empty. An entry's result is its session, None if that was forgotten."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._sessions: dict[int, int] = {}
        """Session -> its last sequence; those heard last stand last."""

    def get(self, key: bytes) -> bytes | None:
        """The value that a key has."""
        return self._values.get(key)

    def knows(self, session: int) -> bool:
        """Whether the session may still set values."""
        return session in self._sessions

    def apply(self, entry: Record) -> int | None:
        """The next record of the log. Raises DecodeError for one that makes no sense here."""
        kind = entry.headers[0][0] if entry.headers else ""
        if kind == SESSION:
            self._set(entry)
            session, _ = _session_of(entry)
        elif kind == OPEN:
            session = entry.offset
            self._note(session, 0)
        else:
            raise DecodeError(f"the record at {entry.offset} is none of this store's")
        return session if self.knows(session) else None

    def snapshot(self) -> Iterator[Record]:
        """What `restore` takes."""
        for key, value in list(self._values.items()):
            yield Record(key=key, value=value)
        for session, sequence in list(self._sessions.items()):
            yield Record(headers=set_headers(session, sequence))

    def close(self) -> None:
        """It is given up."""
        self._values.close()

    def restore(self, piece: Record) -> None:
        """A record of a snapshot. Raises DecodeError for one that makes no sense here."""
        if piece.key is not None and piece.value is not None:
            self._values[piece.key] = piece.value
        else:
            session, sequence = _session_of(piece)
            self._sessions[session] = sequence

    def _set(self, record: Record) -> None:
        if record.key is None or record.value is None:
            raise DecodeError(f"the record at {record.offset} sets nothing")
        session, sequence = _session_of(record)
        last = self._sessions.get(session)
        if last is None or sequence <= last:
            return
        self._note(session, sequence)
        self._values[record.key] = record.value

    def _note(self, session: int, sequence: int) -> None:
        self._sessions.pop(session, None)
        self._sessions[session] = sequence
        if len(self._sessions) > MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]


def set_headers(session: int, sequence: int) -> list[tuple[str, bytes | None]]:
    """Of a record that sets a key; it has key and value beside them."""
    return [(SESSION, b"%d" % session), (SEQUENCE, b"%d" % sequence)]


def _session_of(record: Record) -> tuple[int, int]:
    try:
        (first, session), (second, sequence) = record.headers
        if (first, second) == (SESSION, SEQUENCE):
            return int(session or b""), int(sequence or b"")
    except ValueError:
        pass
    raise DecodeError(f"the record at {record.offset} names no session: {record.headers}")
