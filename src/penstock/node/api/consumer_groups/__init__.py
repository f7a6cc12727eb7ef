"""What members of consumer groups ask of their coordinator, and who looks at these groups (KIP-848), and at what has
happened in groups of all kinds: a row and a file for each API. The rows of share groups (KIP-932) and of streams groups
(KIP-1071) are here as well, their files in `share_groups` and `streams_groups`.

The files are loaded when the first request comes: many nodes have no such groups. Those of Kafka are told to clients
where `group.version`, `share.version`, or `streams.version`, is 1, and refused where it is not.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from penstock.metadata.features import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from penstock.node.serving.access import (
    CLUSTER_ACTION,
    CREATE_IN_CLUSTER,
    CREATE_TOPIC,
    DELETE_GROUP,
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    READ_GROUP,
    READ_TOPIC,
)
from penstock.node.serving.handler import Handler, later
from penstock.node.serving.rules import Each, Whole, Within, the_group
from penstock.protocol.requests.api import ApiKey, OwnApiKey

_SHARES: Final = "penstock.node.api.share_groups"
_STREAMS: Final = "penstock.node.api.streams_groups"


def _named_topics(request: Any) -> Iterable[str]:
    return request.subscribed_topic_names or ()


def topics_of_topology(request: Any) -> Iterable[str]:
    """All that a member of a streams group names."""
    for sub in () if request.topology is None else request.topology.subtopologies:
        yield from sub.source_topics
        yield from sub.repartition_sink_topics
        for topic in (*sub.repartition_source_topics, *sub.state_changelog_topics):
            yield topic.name


def _the_group_of(_: Any, asked: Any) -> str:
    group_id: str = asked.group_id
    return group_id


def _the_topic_of(_: Any, asked: Any) -> str:
    name: str = asked.topic_name
    return name


def _of_shares(key: ApiKey, *, in_slices: bool = False) -> Callable[..., Any]:
    return later(f"{_SHARES}.{key.name.lower()}", in_slices=in_slices)


def _of_streams(key: ApiKey, *, in_slices: bool = False) -> Callable[..., Any]:
    return later(f"{_STREAMS}.{key.name.lower()}", in_slices=in_slices)


def _of_states(key: ApiKey, newest: int) -> Handler:
    """Between nodes: a share coordinator is asked about what it keeps. What is written of a partition is one thing."""
    rule = (Whole(CLUSTER_ACTION),)
    return Handler(int(key), 0, newest, _of_shares(key), rule, parts=(("topics.partitions", "results"),))


def _share_group(request: Any) -> Iterable[str]:
    return () if request.group_id is None else (request.group_id,)


def _of_members(key: ApiKey, *, fetches: bool = False) -> Handler:
    """What a member of a share group asks the leaders of partitions."""
    rule = (Whole(READ_GROUP, _share_group), Within(READ_TOPIC, "for each topic"))
    handler = Handler(int(key), 1, 2, _of_shares(key), rule, feature=SHARE_VERSION)
    return handler.replace(has_files=True, polls=True, ends_with_client=True) if fetches else handler


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
            repeats=True,
            feature=GROUP_VERSION,
        ),
        Handler(
            int(ApiKey.CONSUMER_GROUP_DESCRIBE),
            0,
            1,
            later(f"{__name__}.consumer_group_describe", in_slices=True),
            (
                Each(DESCRIBE_GROUP, ("group_ids",), "groups"),
                Within(DESCRIBE_TOPIC, "for each that a member has, or nothing is told of the group"),
            ),
            feature=GROUP_VERSION,
        ),
        Handler(
            int(OwnApiKey.DESCRIBE_GROUP_HISTORY),
            0,
            0,
            later(f"{__name__}.describe_group_history", in_slices=True),
            (
                Each(DESCRIBE_GROUP, ("groups",), "groups"),
                Within(DESCRIBE_TOPIC, "for each of which a partition has moved, or it is not told"),
            ),
        ),
        Handler(
            int(ApiKey.SHARE_GROUP_HEARTBEAT),
            1,
            1,
            _of_shares(ApiKey.SHARE_GROUP_HEARTBEAT),
            (
                Whole(READ_GROUP, the_group),
                Whole(DESCRIBE_TOPIC, _named_topics, words="for each topic that it names"),
            ),
            feature=SHARE_VERSION,
        ),
        Handler(
            int(ApiKey.SHARE_GROUP_DESCRIBE),
            1,
            1,
            _of_shares(ApiKey.SHARE_GROUP_DESCRIBE, in_slices=True),
            (
                Each(DESCRIBE_GROUP, ("group_ids",), "groups"),
                Within(DESCRIBE_TOPIC, "for each that a member has, or nothing is told of the group"),
            ),
            feature=SHARE_VERSION,
        ),
        Handler(
            int(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS),
            0,
            1,
            _of_shares(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS),
            (
                Each(DESCRIBE_GROUP, ("groups",), "groups", _the_group_of),
                Within(DESCRIBE_TOPIC, "for each; of all topics what is without it is left out"),
            ),
            feature=SHARE_VERSION,
        ),
        Handler(
            int(ApiKey.ALTER_SHARE_GROUP_OFFSETS),
            0,
            0,
            _of_shares(ApiKey.ALTER_SHARE_GROUP_OFFSETS),
            (Whole(READ_GROUP, the_group), Each(READ_TOPIC, ("topics",), "responses", _the_topic_of)),
            parts=(("topics", "responses"),),
            feature=SHARE_VERSION,
        ),
        Handler(
            int(ApiKey.DELETE_SHARE_GROUP_OFFSETS),
            0,
            0,
            _of_shares(ApiKey.DELETE_SHARE_GROUP_OFFSETS),
            (Whole(DELETE_GROUP, the_group), Each(READ_TOPIC, ("topics",), "responses", _the_topic_of)),
            parts=(("topics", "responses"),),
            feature=SHARE_VERSION,
        ),
        Handler(
            int(ApiKey.STREAMS_GROUP_HEARTBEAT),
            0,
            1,
            _of_streams(ApiKey.STREAMS_GROUP_HEARTBEAT),
            (
                Whole(READ_GROUP, the_group),
                Whole(DESCRIBE_TOPIC, topics_of_topology, words="for each topic of the topology"),
                Within(CREATE_IN_CLUSTER, f"or {CREATE_TOPIC} for each internal topic that is missing"),
            ),
            feature=STREAMS_VERSION,
            polls=True,
        ),
        Handler(
            int(ApiKey.STREAMS_GROUP_DESCRIBE),
            0,
            1,
            _of_streams(ApiKey.STREAMS_GROUP_DESCRIBE, in_slices=True),
            (
                Each(DESCRIBE_GROUP, ("group_ids",), "groups"),
                Within(DESCRIBE_TOPIC, "for each of the topology, or nothing is told of the group"),
            ),
            feature=STREAMS_VERSION,
        ),
        Handler(
            int(ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE),
            0,
            0,
            _of_streams(ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE),
            (Whole(READ_GROUP, the_group),),
            feature=STREAMS_VERSION,
        ),
        Handler(
            int(OwnApiKey.DESCRIBE_SHARE_PARTITIONS),
            0,
            0,
            later(f"{_SHARES}.describe_share_partitions"),
            (Whole(DESCRIBE_GROUP, the_group), Each(DESCRIBE_TOPIC, ("topics",), "topics", _the_topic_of)),
            parts=(("topics", "topics"),),
        ),
        _of_states(ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0),
        _of_states(ApiKey.READ_SHARE_GROUP_STATE, 0),
        _of_states(ApiKey.WRITE_SHARE_GROUP_STATE, 1),
        _of_states(ApiKey.DELETE_SHARE_GROUP_STATE, 0),
        _of_states(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, 1),
        _of_members(ApiKey.SHARE_FETCH, fetches=True),
        _of_members(ApiKey.SHARE_ACKNOWLEDGE),
    )
}
