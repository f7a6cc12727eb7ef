"""When a client has asked for Metadata of which topics: what is old, and what nobody has asked about for long.

Who uses a topic looks at it again at least once in metadata.max.age.ms. So one that was last looked at longer ago than
that and metadata.max.idle.ms together has not been used for so long: it is forgotten, and asked for by whoever needs it
next.
"""

import math
from collections.abc import Iterable, Mapping

from penstock.client.metadata import TopicMetadata
from penstock.client.settings import ClientSettings


class Looks:
    """Times are the event loop's."""

    def __init__(self, settings: ClientSettings) -> None:
        self._max_age_s = settings.metadata_max_age_ms / 1000
        self._kept_s = self._max_age_s + settings.metadata_max_idle_ms / 1000
        self._at_s: dict[str | None, float] = {}
        """By topic, the last time; with None when all topics were looked at."""

    def note(self, topics: Iterable[str] | None, now_s: float) -> None:
        """These were asked for, or all (None)."""
        if topics is None:
            self._at_s.clear()
        self._at_s |= dict.fromkeys([None] if topics is None else topics, now_s)

    def old_at_s(self, topics: Iterable[str] | None) -> float:
        """When metadata.max.age.ms will have passed since the last look at one of these topics, or at all (None)."""
        of_all_s = self._at_s.get(None, -math.inf)
        wanted = [None] if topics is None else topics
        looked_at_s = (max(of_all_s, self._at_s.get(topic, -math.inf)) for topic in wanted)
        return min(looked_at_s, default=math.inf) + self._max_age_s

    def in_use(self, topics: Mapping[str, TopicMetadata], now_s: float) -> dict[str, TopicMetadata]:
        """Those that somebody has asked about within the time; the others are forgotten here as well."""
        since_s = now_s - self._kept_s
        self._at_s = {topic: at_s for topic, at_s in self._at_s.items() if at_s >= since_s}
        return {name: topic for name, topic in topics.items() if name in self._at_s or None in self._at_s}
