"""What groups have consumed of a topic, APIs of our own: a row and a file for each. Files are loaded when the first
request comes: few topics have `retention.consumed`.
"""

from collections.abc import Iterable
from typing import Any, Final

from penstock.node.serving.access import DESCRIBE_GROUP, DESCRIBE_TOPIC
from penstock.node.serving.handler import Handler, later
from penstock.node.serving.rules import BETWEEN_NODES, Told, Whole
from penstock.protocol.requests.api import OwnApiKey


def _the_topic(request: Any) -> Iterable[str]:
    return (request.topic,)


HANDLERS: Final = {
    row.api_key: row
    for row in (
        Handler(
            int(OwnApiKey.COMMITTED_POSITIONS),
            0,
            0,
            later(f"{__name__}.committed_positions"),
            BETWEEN_NODES,
            for_nodes=True,
        ),
        Handler(
            int(OwnApiKey.DESCRIBE_HOLDERS),
            0,
            0,
            later(f"{__name__}.describe_holders"),
            (
                Whole(DESCRIBE_TOPIC, _the_topic),
                Told(DESCRIBE_GROUP, "groups", lambda group: group.group_id),
            ),
        ),
    )
}
