"""Who coordinates what, as a client was told last: only so much is remembered, as others choose the keys.

A tool that looks at all groups meets ever new ones, and who ends transactions of others ever new ids. What is
forgotten is looked up again.
"""

from collections.abc import Iterator, MutableMapping
from typing import Final, TypeVar

Where = TypeVar("Where")
Key = tuple[int, str]
"""What kind of key, and the key."""

MOST_COORDINATORS: Final = 10_000
MOST_CHARACTERS: Final = 4 << 20
"""Of all keys together: one may have 32,767."""


class KnownCoordinators(MutableMapping[Key, Where]):
    """Those that were told first are forgotten first."""

    def __init__(self) -> None:
        self._known: dict[Key, Where] = {}
        self._characters = 0

    def __getitem__(self, key: Key) -> Where:
        return self._known[key]

    def __setitem__(self, key: Key, where: Where) -> None:
        self.pop(key, None)
        self._known[key] = where
        self._characters += len(key[1])
        while len(self._known) > MOST_COORDINATORS or self._characters > MOST_CHARACTERS:
            del self[next(iter(self._known))]

    def __delitem__(self, key: Key) -> None:
        del self._known[key]
        self._characters -= len(key[1])

    def __iter__(self) -> Iterator[Key]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)
