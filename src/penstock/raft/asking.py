"""Whom to ask, and when again: one request to each peer at a time, repeated until it is answered."""

from collections.abc import Iterable

from penstock.raft.settings import NEVER, RaftSettings


class Asking:
    __slots__ = ("_due_ms", "_settings")

    def __init__(self, settings: RaftSettings, peers: Iterable[int], now_ms: int) -> None:
        self._settings = settings
        self._due_ms = dict.fromkeys(peers, now_ms)

    @property
    def next_ms(self) -> int:
        return min(self._due_ms.values(), default=NEVER)

    def take_due(self, now_ms: int, patience_ms: int | None = None) -> list[int]:
        """The peers to ask now; they are due again if they do not answer within the request time-out."""
        if patience_ms is None:
            patience_ms = self._settings.request_timeout_ms
        due = [peer for peer, due_ms in self._due_ms.items() if due_ms <= now_ms]
        for peer in due:
            self._due_ms[peer] = now_ms + patience_ms
        return due

    def failed(self, peer: int, now_ms: int) -> None:
        if peer in self._due_ms:
            self._due_ms[peer] = now_ms + self._settings.retry_backoff_ms

    def postpone(self, peer: int, due_ms: int) -> None:
        if peer in self._due_ms:
            self._due_ms[peer] = due_ms

    def done(self, peer: int) -> None:
        self._due_ms.pop(peer, None)

    def keep(self, peers: Iterable[int], now_ms: int) -> None:
        """New peers are due at once."""
        self._due_ms = {peer: self._due_ms.get(peer, now_ms) for peer in peers}
