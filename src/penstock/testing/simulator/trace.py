"""What happened in a simulation, one line per event, and a hash of all of it: same seed, same hash."""

import hashlib
from collections.abc import Callable


class Trace:
    """Lines with their virtual time. Bytes on the network only go into the hash."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.lines: list[str] = []
        self.now = clock
        """Virtual seconds."""
        self._hash = hashlib.sha256()

    def note(self, who: str, what: str) -> None:
        line = f"{self.now():11.6f} {who:<10} {what}"
        self.lines.append(line)
        self._hash.update(line.encode())

    def mix(self, data: bytes) -> None:
        """Adds the bytes to the hash."""
        self._hash.update(data)

    @property
    def hash(self) -> str:
        return self._hash.hexdigest()
