"""Metrics that clients push (KIP-714): a row and a file for each API. A broker that has no use for them serves neither.

The files are loaded when the first request comes.
"""

from typing import Final

from penstock.node.serving.handler import Handler, later
from penstock.node.serving.rules import NOTHING
from penstock.protocol.requests.api import ApiKey

HANDLERS: Final[dict[int, Handler]] = {
    int(key): Handler(int(key), 0, 0, later(f"{__name__}.{key.name.lower()}"), NOTHING)
    for key in (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
}
