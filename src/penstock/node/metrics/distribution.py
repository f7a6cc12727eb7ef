"""How large something was, how often: counted by hand where it happens, read by a `Histogram`."""

BITS = 64
"""No number that is measured is longer: as nanoseconds, that is 584 years."""


class Distribution:
    """Whole numbers, counted in buckets that double; `per_unit` of them are one unit of what is told.

    Durations are measured in microseconds or nanoseconds and told in milliseconds. To observe one costs a tenth of a
    microsecond (decision 0603).
    """

    __slots__ = ("buckets", "largest", "per_unit", "total")

    def __init__(self, per_unit: int = 1) -> None:
        self.per_unit = per_unit
        self.total = 0
        self.largest = 0
        self.buckets = [0] * (BITS + 1)
        """How many numbers have so many bits: those in bucket `n` are at most `2**n - 1`, and not in a smaller one."""

    def observe(self, number: int) -> None:
        """The number is not negative. This stands on hot paths: what can be worked out later is."""
        self.total += number
        if number > self.largest:
            self.largest = number
        self.buckets[number.bit_length()] += 1

    @property
    def count(self) -> int:
        return sum(self.buckets)

    @property
    def sum(self) -> float:
        return self.total / self.per_unit

    @property
    def mean(self) -> float:
        """0 as long as there is none."""
        return self.total / (max(self.count, 1) * self.per_unit)

    @property
    def max(self) -> float:
        return self.largest / self.per_unit

    def quantile(self, share: float) -> float:
        """What that share of all numbers does not exceed, as if those of a bucket were spread evenly over it."""
        rank = share * self.count
        for bits, count in enumerate(self.buckets):
            if count and rank <= count:
                least, most = (1 << bits) >> 1, min((1 << bits) - 1, self.largest)
                return (least + (most - least) * rank / count) / self.per_unit
            rank -= count
        return self.max


class Durations(Distribution):
    """In microseconds, told in milliseconds."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(per_unit=1000)

    def took(self, seconds: float) -> None:
        self.observe(int(seconds * 1_000_000))
