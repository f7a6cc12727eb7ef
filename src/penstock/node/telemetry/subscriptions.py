"""Subscriptions of client metrics, as the metadata have them: which clients are to push which metrics, and how often.

A client matches where each pattern matches the whole of its value; a subscription without a pattern matches all. What a
client is asked for is all that its subscriptions name, at the shortest of their intervals. As Kafka has it, its number
is made of both and of the client, so that the client hears of a change by a number that is not known.
"""

import logging
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final
from uuid import UUID

from penstock.metadata.configs.definitions import parse_value
from penstock.metadata.configs.group import CLIENT_METRICS_CONFIGS
from penstock.metadata.configs.resources import match_pattern
from penstock.metadata.image import ClusterImage
from penstock.protocol.checksum import crc32c
from penstock.protocol.expressions.matcher import Matcher
from penstock.protocol.expressions.parse import ExpressionError
from penstock.protocol.uuids import uuid_to_text
from penstock.protocol.value import Value

logger = logging.getLogger(__name__)

ALL: Final = "*"
INTERVAL_MS: Final = 300_000
"""Of a client that matches no subscription: so often it asks again."""
LONGEST: Final = 255
"""A longer value matches no pattern: a client chooses its id."""
PATTERNS_KEPT: Final = 1024

Pattern = tuple[str, str]
"""A selector, and what its value has to match."""


class Attributes(Value):
    """What a client is selected by."""

    client_instance_id: UUID
    client_id: str = ""
    client_software_name: str = ""
    client_software_version: str = ""
    client_source_address: str = ""
    client_source_port: str = ""

    def of(self, selector: str) -> str:
        if selector == "client_instance_id":
            return uuid_to_text(self.client_instance_id)
        found: str = getattr(self, selector)
        return found


class Subscription(Value):
    interval_ms: int
    metrics: tuple[str, ...]
    match: tuple[Pattern, ...]

    def matches(self, client: Attributes) -> bool:
        return all(_matches(pattern, client.of(selector)) for selector, pattern in self.match)


class Wanted(Value):
    """What one client is asked for: prefixes of names, or `*`; nothing, if there are none."""

    number: int
    interval_ms: int
    metrics: tuple[str, ...]


def subscriptions(image: ClusterImage) -> tuple[Subscription, ...]:
    """All of them, in the order of their names."""
    return tuple(subscription(image.client_metrics[name]) for name in sorted(image.client_metrics))


def subscription(settings: Mapping[str, str]) -> Subscription:
    values = {
        key: parse_value(CLIENT_METRICS_CONFIGS[key], settings.get(key, CLIENT_METRICS_CONFIGS[key].default))
        for key in ("interval.ms", "match", "metrics")
    }
    interval_ms, match, metrics = values["interval.ms"], values["match"], values["metrics"]
    assert isinstance(interval_ms, int)
    assert isinstance(match, tuple)
    assert isinstance(metrics, tuple)
    pairs = (item.partition("=") for item in match if item)
    return Subscription(interval_ms, metrics, tuple((name.strip(), pattern.strip()) for name, _, pattern in pairs))


def wanted_of(client: Attributes, all_: Iterable[Subscription]) -> Wanted:
    matching = [one for one in all_ if one.matches(client)]
    metrics = tuple(sorted({prefix for one in matching for prefix in one.metrics}))
    if ALL in metrics:
        metrics = (ALL,)
    interval_ms = min((one.interval_ms for one in matching), default=INTERVAL_MS)
    text = f"{','.join(metrics)} {interval_ms} {client.client_instance_id}"
    return Wanted(_signed(crc32c(text.encode())), interval_ms, metrics)


def _matches(pattern: str, value: str) -> bool:
    matcher = _compiled(pattern)
    return matcher is not None and len(value) <= LONGEST and matcher.matches(value)


@lru_cache(PATTERNS_KEPT)
def _compiled(pattern: str) -> Matcher | None:
    """None for one of an older version, which matches nothing."""
    try:
        return match_pattern(pattern)
    except ExpressionError as error:
        logger.error("the pattern %s of client metrics matches nothing: %s", pattern, error)
        return None


def _signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number
