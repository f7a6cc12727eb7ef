"""What members of consumer groups ask of their coordinator, and who looks at these groups (KIP-848): a row and a file
for each API. The rows of share groups (KIP-932) are here as well, their files in `share_groups`.

The files are loaded when the first request comes: many nodes have no such groups. They are told to clients where
`group.version`, or `share.version`, is 1, and refused where it is not.
"""

from collections.abc import Iterable
from typing import Any, Final

from penstock.metadata.features import GROUP_VERSION, SHARE_VERSION
from penstock.node.serving.access import DESCRIBE_GROUP, DESCRIBE_TOPIC, READ_GROUP, READ_TOPIC
from penstock.node.serving.handler import Handler, later
from penstock.node.serving.rules import Each, Whole, Within, the_group
from penstock.protocol.requests.api import ApiKey


def _named_topics(request: Any) -> Iterable[str]:
    return request.subscribed_topic_names or ()


def _share_group(request: Any) -> Iterable[str]:
    return () if request.group_id is None else (request.group_id,)


def _of_members(api: str, key: ApiKey) -> Handler:
    """What a member of a share group asks the leaders of partitions."""
    rule = (Whole(READ_GROUP, _share_group), Within(READ_TOPIC, "for each topic"))
    return Handler(int(key), 1, 2, later(f"penstock.node.api.share_groups.{api}"), rule, feature=SHARE_VERSION)


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
        _of_members("share_fetch", ApiKey.SHARE_FETCH),
        _of_members("share_acknowledge", ApiKey.SHARE_ACKNOWLEDGE),
    )
}
