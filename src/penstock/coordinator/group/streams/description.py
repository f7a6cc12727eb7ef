"""The description of a topology as the application draws it (KIP-1331): what is stored of it, and what is shown.

Kafka asks a plugin to keep it; here it is a record of the group, so that it is there whenever the group is, and goes
with it. It is a record of our own, which Kafka passes over with a warning.
"""

from collections.abc import Iterable
from typing import Any, Final

from penstock.protocol.codec import encode
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import streams_group_describe as describe
from penstock.protocol.messages import streams_group_topology_description_update as update
from penstock.protocol.schema import Message, array, field

DESCRIPTION: Final = 15_001
"""The version of the record's key."""
MAX_BYTES: Final = 512 * 1024
"""So that the record goes into a batch; an application of a thousand processors takes a tenth of it."""

MAX_NODES: Final = 2_000
"""Each takes the event loop some 3 µs, whenever the description comes or is shown."""
MAX_NAMES: Final = 10_000
"""Of topics, stores and successors, at all nodes together."""

NOT_REQUESTED: Final = 0
NOT_STORED: Final = 1
ERROR: Final = 2
AVAILABLE: Final = 3
"""What an answer says of the description."""

SOURCE: Final = 1
PROCESSOR: Final = 2
SINK: Final = 3
"""The types of nodes."""


class DescriptionValue(Message, versions="0", flexible="0+"):
    """The record. What is in it never changes."""

    topology_epoch: int = field("int32", "0+", default=0)
    subtopologies: list[update.TopologyDescriptionSubtopology] = array(
        update.TopologyDescriptionSubtopology, "0+", default_factory=list
    )
    global_stores: list[update.TopologyDescriptionGlobalStore] = array(
        update.TopologyDescriptionGlobalStore, "0+", default_factory=list
    )


def stored(topology_epoch: int, pushed: update.TopologyDescription) -> DescriptionValue:
    """KafkaError: INVALID_REQUEST, or STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED for one that is too large: asked
    again, the application would send the same.
    """
    _check_is_small(pushed)
    value = DescriptionValue(
        topology_epoch=topology_epoch,
        subtopologies=[
            update.TopologyDescriptionSubtopology(
                subtopology_id=sub.subtopology_id, nodes=[_node(node) for node in sub.nodes]
            )
            for sub in pushed.subtopologies
        ],
        global_stores=[_global_store(store) for store in pushed.global_stores],
    )
    _check_size(len(encode(value, 0)), "bytes", MAX_BYTES)
    return value


def _check_is_small(pushed: update.TopologyDescription) -> None:
    nodes = [node for sub in pushed.subtopologies for node in sub.nodes]
    nodes += [node for store in pushed.global_stores for node in (store.source, store.processor)]
    _check_size(len(pushed.subtopologies) + len(nodes), "subtopologies and nodes", MAX_NODES)
    names = sum(len(node.source_topics) + len(node.stores) + len(node.successors) for node in nodes)
    _check_size(names, "names", MAX_NAMES)


def _check_size(size: int, of_what: str, most: int) -> None:
    if size > most:
        raise KafkaError(
            ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED,
            f"the description of the topology has {size} {of_what}, more than the {most} that are stored",
        )


def described(value: DescriptionValue) -> describe.TopologyDescription:
    return describe.TopologyDescription(
        subtopologies=[
            describe.TopologyDescriptionSubtopology(
                subtopology_id=sub.subtopology_id, nodes=[_described(node) for node in sub.nodes]
            )
            for sub in value.subtopologies
        ],
        global_stores=[
            describe.TopologyDescriptionGlobalStore(
                source=_described(store.source), processor=_described(store.processor)
            )
            for store in value.global_stores
        ],
    )


def _node(node: update.TopologyDescriptionNode) -> update.TopologyDescriptionNode:
    """Only what nodes of its type have, and nothing twice."""
    if node.node_type not in (SOURCE, PROCESSOR, SINK):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"node {node.name} has the unknown type {node.node_type}")
    return update.TopologyDescriptionNode(
        name=node.name,
        node_type=node.node_type,
        source_topics=_once(node.source_topics) if node.node_type == SOURCE else [],
        sink_topic=node.sink_topic if node.node_type == SINK else None,
        stores=_once(node.stores) if node.node_type == PROCESSOR else [],
        successors=_once(node.successors),
    )


def _global_store(store: update.TopologyDescriptionGlobalStore) -> update.TopologyDescriptionGlobalStore:
    if (store.source.node_type, store.processor.node_type) != (SOURCE, PROCESSOR):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a global store has to be a source and a processor")
    return update.TopologyDescriptionGlobalStore(source=_node(store.source), processor=_node(store.processor))


def _once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _described(node: Any) -> describe.TopologyDescriptionNode:
    return describe.TopologyDescriptionNode(
        name=node.name,
        node_type=node.node_type,
        source_topics=node.source_topics,
        sink_topic=node.sink_topic,
        stores=node.stores,
        successors=node.successors,
    )
