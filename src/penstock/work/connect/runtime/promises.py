"""What a source's configuration asks of transactions (KIP-618), and whether that can be kept."""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from penstock.work.connect.api import SourceConnector, Support
from penstock.work.connect.config import ConfigKey

REQUIRED: Final = "required"


class Boundary(Enum):
    """Where a transaction ends: with what one poll has brought, after some time, or where the connector says."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"


SUPPORT: Final = ConfigKey(
    "exactly.once.support",
    default="requested",
    documentation="Whether the connector is refused if its records cannot be written exactly once.",
    choices=("requested", REQUIRED),
)
BOUNDARY: Final = ConfigKey(
    "transaction.boundary",
    default=Boundary.POLL.value,
    documentation="Where transactions of a source end: poll, interval, or connector.",
    choices=tuple(one.value for one in Boundary),
)
INTERVAL: Final = ConfigKey(
    "transaction.boundary.interval.ms",
    "long",
    None,
    "How long they are with the boundary interval; the worker's offset.flush.interval.ms, if it is not said.",
    least=1,
    importance="low",
)
OFFSETS_TOPIC: Final = ConfigKey(
    "offsets.storage.topic",
    documentation="A topic that has how far this source was read; the worker's, if none is named.",
    importance="low",
)
KEYS: Final = (SUPPORT, BOUNDARY, INTERVAL, OFFSETS_TOPIC)


def boundary_of(config: Mapping[str, str]) -> Boundary:
    """ValueError."""
    return Boundary(BOUNDARY.parse(config.get(BOUNDARY.name)))


def broken(kind: type[SourceConnector], config: Mapping[str, str], *, has_transactions: bool) -> dict[str, list[str]]:
    """By keys, what cannot be kept on a worker that has transactions of sources, or not."""
    try:
        is_required = SUPPORT.parse(config.get(SUPPORT.name)) == REQUIRED
        boundary = boundary_of(config)
    except ValueError:
        return {}  # the key for itself is wrong
    wrong: dict[str, list[str]] = {}
    if is_required and (reason := _why_not(kind, config, has_transactions)):
        wrong[SUPPORT.name] = [f"{SUPPORT.name}={REQUIRED}: {reason}"]
    if boundary is not Boundary.POLL and not has_transactions:
        reason = "this worker writes no transactions, see exactly.once.source.support; leave it out"
        wrong[BOUNDARY.name] = [f"{BOUNDARY.name}={boundary.value}: {reason}"]
    elif boundary is Boundary.CONNECTOR and _defines_none(kind, config):
        reason = "the connector does not say where they end with this configuration; take poll or interval"
        wrong[BOUNDARY.name] = [f"{BOUNDARY.name}={boundary.value}: {reason}"]
    return wrong


def _why_not(kind: type[SourceConnector], config: Mapping[str, str], has_transactions: bool) -> str:
    if not has_transactions:
        return "this worker writes no transactions; exactly.once.source.support=enabled makes it do so"
    try:
        support = kind().exactly_once_support(config)
    except Exception as error:  # a plugin may raise anything
        return f"the connector was asked, and failed: {error!r}"
    if support is None:
        return "the connector does not say whether it can; where its documents do, `requested` is enough"
    return "" if support is Support.SUPPORTED else "the connector cannot, with this configuration"


def _defines_none(kind: type[SourceConnector], config: Mapping[str, str]) -> bool:
    try:
        return kind().can_define_transaction_boundaries(config) is not Support.SUPPORTED
    except Exception:  # the same
        return True
