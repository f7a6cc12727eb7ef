"""What members of consumer groups ask of their coordinator, and who looks at these groups (KIP-848), and at what has
happened in groups of all kinds: a row and a file for each API.

The files are loaded when the first request comes: many nodes have no such groups. Those of Kafka are told to clients
where `group.version` is 1, and refused where it is not.
"""

from collections.abc import Iterable
from typing import Any, Final

from penstock.metadata.features import GROUP_VERSION
from penstock.node.serving.access import DESCRIBE_GROUP, DESCRIBE_TOPIC, READ_GROUP
from penstock.node.serving.handler import Handler, later
from penstock.node.serving.rules import Each, Whole, Within, the_group
from penstock.protocol.requests.api import ApiKey, OwnApiKey


def _named_topics(request: Any) -> Iterable[str]:
    return request.subscribed_topic_names or ()


HANDLERS: Final = {
    row.api_key: row
    for row in (
        Handler(
            int(ApiKey.CONSUMER_GROUP_HEARTBEAT),
            0,
            1,
            later(f"{__name__}.consumer_group_heartbeat"),
            (
                Whole(READ_GROUP, the_group),
                Whole(DESCRIBE_TOPIC, _named_topics, words="for each topic that it names"),
                Within(DESCRIBE_TOPIC, "for each that its expression matches, or that is not read"),
            ),
            feature=GROUP_VERSION,
        ),
        Handler(
            int(ApiKey.CONSUMER_GROUP_DESCRIBE),
            0,
            1,
            later(f"{__name__}.consumer_group_describe"),
            (
                Each(DESCRIBE_GROUP, ("group_ids",), "groups"),
                Within(DESCRIBE_TOPIC, "for each that a member has, or nothing is told of the group"),
            ),
            parts=(("group_ids", "groups"),),
            feature=GROUP_VERSION,
        ),
        Handler(
            int(OwnApiKey.DESCRIBE_GROUP_HISTORY),
            0,
            0,
            later(f"{__name__}.describe_group_history"),
            (
                Each(DESCRIBE_GROUP, ("groups",), "groups"),
                Within(DESCRIBE_TOPIC, "for each of which a partition has moved, or it is not told"),
            ),
            parts=(("groups", "groups"),),
        ),
    )
}
