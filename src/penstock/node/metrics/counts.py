"""What a node counts while it serves: requests by API, bytes and records by topic, connections by listener, the ISR.

All are plain numbers that the part which does something adds to; `counted.py` says what they are called.
"""

from collections.abc import Iterable
from typing import Final

from penstock.node.metrics.distribution import BITS, Distribution

NAMED_TOPICS: Final = 1000
"""So many topics are counted each by itself, by default; those that come later share one entry."""
OTHER: Final = "other"
"""What is told as the topic of those."""
CELLS: Final = BITS + 1
NANOSECONDS_PER_MS: Final = 1_000_000


class ApiCounts:
    """Requests of one API, once they are answered, and those that wait."""

    __slots__ = ("cells", "errors", "of_nodes", "sizes", "total_bytes", "total_ns", "waiting")

    def __init__(self, versions: int = 1, *, splits: bool = False) -> None:
        """It has versions from 0 on, so many. `splits`: requests of other nodes are counted apart."""
        self.cells = [[0] * CELLS for _ in range(versions)]
        """By version, how many requests took a number of nanoseconds that has so many bits."""
        self.total_ns = 0
        self.sizes = [0] * CELLS
        """How many requests had a number of bytes that has so many bits, with their header, without their length."""
        self.total_bytes = 0
        self.errors: dict[int, int] = {}
        """By error code, how often an answer had it; of Produce and Fetch for each partition."""
        self.waiting = 0
        self.of_nodes: ApiCounts = ApiCounts(versions) if splits else self

    def done(self, version: int, took_ns: int) -> None:
        """A request has its answer. Two additions, as most requests come here (decision 0603), or do the same."""
        self.cells[version][took_ns.bit_length()] += 1
        self.total_ns += took_ns

    def by_version(self) -> dict[int, int]:
        """How many were answered, of versions that came."""
        return {version: count for version, cells in enumerate(self.cells) if (count := sum(cells))}

    @property
    def count(self) -> int:
        return sum(map(sum, self.cells))

    @property
    def times(self) -> Distribution:
        """From when a request was taken until its answer was made; the largest is known by its bits."""
        return _told(map(sum, zip(*self.cells, strict=True)), self.total_ns, NANOSECONDS_PER_MS)

    @property
    def request_sizes(self) -> Distribution:
        """In bytes; a request counts when it is taken."""
        return _told(self.sizes, self.total_bytes)

    @property
    def all_waiting(self) -> int:
        return self.waiting if self.of_nodes is self else self.waiting + self.of_nodes.waiting

    def failed(self, code: int) -> None:
        self.errors[code] = self.errors.get(code, 0) + 1


def _told(buckets: Iterable[int], total: int, per_unit: int = 1) -> Distribution:
    told = Distribution(per_unit)
    told.buckets, told.total = list(buckets), total
    told.largest = max(((1 << bits) - 1 for bits, count in enumerate(told.buckets) if count), default=0)
    return told


class Traffic:
    """What goes into the partitions of a topic here, and out of them.

    Records and bytes that came in are those that a leader here has appended, whoever wrote them: a client, a
    coordinator, a transaction that ends. A batch that was sent twice counts once.
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "holders",
        "produces",
        "records_in",
        "replication_bytes_in",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.records_in = self.bytes_in = self.bytes_out = 0
        self.replication_bytes_in = self.replication_bytes_out = 0
        self.produces = self.fetches = self.failed_produces = self.failed_fetches = 0
        self.holders = 0
        """How many partitions that are held here count with this."""

    def add(self, other: "Traffic") -> None:
        for name in COUNTED:
            setattr(self, name, getattr(self, name) + getattr(other, name))


COUNTED: Final = tuple(name for name in Traffic.__slots__ if name != "holders")


class TopicCounts:
    """Traffic of the topics of which partitions are held here. A total never falls, though topics go."""

    __slots__ = ("_gone", "by_topic", "most", "others")

    def __init__(self, most: int = NAMED_TOPICS) -> None:
        self.most = most
        self.by_topic: dict[str, Traffic] = {}
        self.others = Traffic()
        self._gone = Traffic()

    def enter(self, topic: str) -> Traffic:
        """A partition of the topic is held from now on."""
        found = self.by_topic.get(topic)
        if found is None:
            if len(self.by_topic) < self.most:
                found = self.by_topic[topic] = Traffic()
            else:
                found = self.others
        found.holders += 1
        return found

    def leave(self, topic: str, traffic: Traffic) -> None:
        """A partition that counted with this is held no longer; behind the last one the topic is forgotten."""
        traffic.holders -= 1
        if traffic.holders <= 0 and self.by_topic.get(topic) is traffic:
            self._gone.add(self.by_topic.pop(topic))

    def numbers(self, attribute: str) -> tuple[int, dict[str, int]]:
        """One attribute of `Traffic`: the total, and by topic; what those have that share an entry is `other`'s."""
        by_topic = {topic: getattr(traffic, attribute) for topic, traffic in self.by_topic.items()}
        others: int = getattr(self.others, attribute)
        total = sum(by_topic.values()) + others + getattr(self._gone, attribute)
        return total, by_topic | ({OTHER: others} if self.others.fetches or self.others.produces else {})


class ListenerCounts:
    """Connections of one listener."""

    __slots__ = ("closed", "created", "failed_logins", "logins", "refused")

    def __init__(self) -> None:
        self.created = self.closed = self.refused = 0
        self.logins = self.failed_logins = 0


class NodeCounts:
    """All that one node counts in this way."""

    __slots__ = ("apis", "isr_expands", "isr_failures", "isr_shrinks", "listeners", "topics")

    def __init__(self, most_topics: int = NAMED_TOPICS) -> None:
        self.apis: dict[int, ApiCounts] = {}
        self.topics = TopicCounts(most_topics)
        self.listeners: dict[str, ListenerCounts] = {}
        self.isr_shrinks = self.isr_expands = self.isr_failures = 0

    def api(self, key: int, versions: int, *, splits: bool = False) -> ApiCounts:
        """A node that has both roles counts an API for both."""
        found = self.apis.get(key)
        if found is None:
            found = self.apis[key] = ApiCounts(versions, splits=splits)
        return found

    def listener(self, name: str) -> ListenerCounts:
        return self.listeners.setdefault(name, ListenerCounts())
