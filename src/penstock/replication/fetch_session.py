"""The follower's side of a fetch session (KIP-227): what goes into its next request to one leader.

A leader remembers what a follower fetches, so that a request names only what has changed since the last one.

| event      | cause                                              | the next request                                   |
| ---------- | -------------------------------------------------- | -------------------------------------------------- |
| `want`     | a partition is followed, or its log has grown      | names it                                           |
| `forget`   | it is followed no longer, or rests after an error  | takes it out of the session                        |
| `answered` | the leader has taken the last request              | is the next one of the session                     |
| `reset`    | the leader has not, or knows no such session       | names all that is wanted, and opens a new session  |
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.protocol.requests.following import Key, Position

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
LAST_EPOCH: Final = 2**31 - 1


class Asked(NamedTuple):
    """Has the session, what the request names, and what it takes out of the session."""

    session_id: int
    epoch: int
    positions: Sequence[tuple[Key, Position]]
    forgotten: Sequence[Key]


class FollowerSession:
    __slots__ = ("_forgotten", "_news", "_next_epoch", "_session_id", "_told", "_wanted")

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._next_epoch = FIRST_EPOCH
        self._wanted: dict[Key, Position] = {}
        self._news: dict[Key, None] = {}
        self._told: dict[Key, Position] = {}
        self._forgotten: dict[Key, None] = {}

    def __len__(self) -> int:
        return len(self._wanted)

    def want(self, key: Key, position: Position) -> None:
        if self._wanted.get(key) != position:
            self._wanted[key] = position
            self._news[key] = None

    def forget(self, key: Key) -> None:
        self._wanted.pop(key, None)
        self._news.pop(key, None)
        if key in self._told:
            del self._told[key]
            self._forgotten[key] = None

    def told(self, key: Key) -> Position | None:
        """What the leader answers to; None if it was not asked about this partition."""
        return self._told.get(key)

    def next(self) -> Asked:
        """`answered` or `reset` must follow before the next call."""
        if self._next_epoch == FIRST_EPOCH:
            asked = Asked(self._session_id, FIRST_EPOCH, list(self._wanted.items()), ())
            self._told = dict(self._wanted)
        else:
            news = [(key, self._wanted[key]) for key in self._news]
            forgotten = [key for key in self._forgotten if key not in self._wanted]
            asked = Asked(self._session_id, self._next_epoch, news, forgotten)
            self._told.update(news)
        self._news.clear()
        self._forgotten.clear()
        return asked

    def answered(self, session_id: int) -> None:
        """The leader may have no room for a session (`session_id` 0)."""
        self._session_id = session_id
        if session_id == NO_SESSION:
            self.reset()
        else:
            self._next_epoch = self._next_epoch + 1 if self._next_epoch < LAST_EPOCH else 1

    def reset(self) -> None:
        """Begin a new session; the request closes the old one, if the leader still has it."""
        self._next_epoch = FIRST_EPOCH
        self._told.clear()
