"""What is replicated: keys and values, and how far each client's session has come.

The store is made by the records of the log alone and by their order, so it is the same on every server that has applied
as many. There are three kinds of record; what else a record says stands in its headers, as text, so that
`penstock dump-log --print-data-log` shows a log that people can read:

| record       | key | value | headers                            |
| ------------ | --- | ----- | ---------------------------------- |
| set          | yes | yes   | `session`, `sequence`              |
| open session | no  | no    | `open`; its offset is the session  |
| read         | no  | no    | `read`; changes nothing            |

A set that is tried again, because its answer was lost, is the same session and sequence again, and is applied once: a
session's sequences only go up. A session that was forgotten cannot set anything, so nothing is ever applied twice;
sessions are forgotten when there are too many, the one first that was silent for longest, counted in records.
"""

from collections.abc import Iterator

from examples.raft_kv.values import Values
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record

MAX_SESSIONS = 10_000

SESSION, SEQUENCE, OPEN, READ = "session", "sequence", "open", "read"


def set_record(session: int, sequence: int, key: bytes, value: bytes, now_ms: int) -> Record:
    """Let the key have this value."""
    return Record(timestamp_ms=now_ms, key=key, value=value, headers=_headers(session, sequence))


def open_record(now_ms: int) -> Record:
    """Begin a session."""
    return Record(timestamp_ms=now_ms, headers=[(OPEN, None)])


def read_record(now_ms: int) -> Record:
    """Mark the moment of a read: when it is committed, its leader knew of everything before it."""
    return Record(timestamp_ms=now_ms, headers=[(READ, None)])


class Store:
    """The state machine; `values` are empty."""

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

    def apply(self, record: Record) -> None:
        """The next record of the log. Raises DecodeError for one that makes no sense here."""
        kind = record.headers[0][0] if record.headers else ""
        if kind == SESSION:
            self._set(record)
        elif kind == OPEN:
            self._note(record.offset, 0)
        elif kind != READ:
            raise DecodeError(f"the record at {record.offset} is none of this store's")

    def records(self, now_ms: int) -> Iterator[Record]:
        """What a snapshot holds; `restore` takes it."""
        for key, value in list(self._values.items()):
            yield Record(timestamp_ms=now_ms, key=key, value=value)
        for session, sequence in list(self._sessions.items()):
            yield Record(timestamp_ms=now_ms, headers=_headers(session, sequence))

    def close(self) -> None:
        """It is given up."""
        self._values.close()

    def restore(self, record: Record) -> None:
        """A record of a snapshot. Raises DecodeError for one that makes no sense here."""
        if record.key is not None and record.value is not None:
            self._values[record.key] = record.value
        else:
            session, sequence = _session_of(record)
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


def _headers(session: int, sequence: int) -> list[tuple[str, bytes | None]]:
    return [(SESSION, b"%d" % session), (SEQUENCE, b"%d" % sequence)]


def _session_of(record: Record) -> tuple[int, int]:
    try:
        (first, session), (second, sequence) = record.headers
        if (first, second) == (SESSION, SEQUENCE):
            return int(session or b""), int(sequence or b"")
    except ValueError:
        pass
    raise DecodeError(f"the record at {record.offset} names no session: {record.headers}")
