"""How much of a quota is left: a bucket that fills at the rate of the quota, and whose holder may owe.

What was done is always taken out, and the next who comes waits until nothing is owed any more. So in any time the rate
is exceeded by what the bucket holds and by one request at most, however large that was and however long the time.
Kafka counts over windows instead, which after a rest let through what ten seconds allow; its limit of the controller
is a bucket as here.

| state  | it begins with                    | it ends with                              |
| ------ | --------------------------------- | ----------------------------------------- |
| full   | nothing taken for a while         | something taken                           |
| paying | something taken                   | time: full; more taken than there is: owing |
| owing  | more taken than there was         | time: paying                              |
"""

from math import ceil


class Bucket:
    """The rate fills it in `depth_s`. `taken` is all that ever was taken, `throttled_ms` all waits that were told."""

    __slots__ = ("_last_ms", "_left", "depth_s", "rate", "taken", "throttled_ms")

    def __init__(self, rate: float, depth_s: float, now_ms: int) -> None:
        self.rate = rate
        self.depth_s = depth_s
        self._left = rate * depth_s
        self._last_ms = now_ms
        self.taken = 0.0
        self.throttled_ms = 0

    @property
    def last_ms(self) -> int:
        """When it was last looked at."""
        return self._last_ms

    @property
    def is_owing(self) -> bool:
        """Whether it was when it was last looked at."""
        return self._left < 0

    def take(self, amount: float, now_ms: int) -> int:
        """Returns for how long, in ms, nothing more may be taken."""
        self._fill(now_ms)
        self._left -= amount
        self.taken += amount
        return self._owed_ms()

    def give_back(self, amount: float) -> None:
        """What was taken beforehand and not used."""
        self._left = min(self._left + amount, self.rate * self.depth_s)
        self.taken -= amount

    def owed_ms(self, now_ms: int) -> int:
        """For how long nothing may be taken; 0 if something may be."""
        self._fill(now_ms)
        return self._owed_ms()

    def _owed_ms(self) -> int:
        return ceil(-self._left / self.rate * 1000) if self._left < 0 else 0

    def _fill(self, now_ms: int) -> None:
        elapsed_ms = max(0, now_ms - self._last_ms)
        self._left = min(self._left + self.rate * elapsed_ms / 1000, self.rate * self.depth_s)
        self._last_ms = now_ms
