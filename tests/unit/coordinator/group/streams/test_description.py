"""The description of a topology: what is refused, and what comes back of what is stored."""

from typing import Any

import pytest

from penstock.coordinator.group.streams.description import (
    MAX_BYTES,
    MAX_NAMES,
    MAX_NODES,
    PROCESSOR,
    SINK,
    SOURCE,
    DescriptionValue,
    described,
    stored,
)
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import streams_group_describe as describe
from penstock.protocol.messages.streams_group_topology_description_update import (
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)

READS = TopologyDescriptionNode(name="in", node_type=SOURCE, source_topics=["words", "words"], successors=["count"])
COUNTS = TopologyDescriptionNode(
    name="count", node_type=PROCESSOR, stores=["counts"], source_topics=["not for a processor"], successors=["out"]
)
WRITES = TopologyDescriptionNode(name="out", node_type=SINK, sink_topic="result", stores=["not for a sink"])
PUSHED = TopologyDescription(
    subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=[READS, COUNTS, WRITES])],
    global_stores=[TopologyDescriptionGlobalStore(source=READS, processor=COUNTS)],
)


def node(name: str, node_type: int, **fields: Any) -> describe.TopologyDescriptionNode:
    return describe.TopologyDescriptionNode(name=name, node_type=node_type, **fields)


def test_what_is_pushed_is_shown() -> None:
    kept = encode(stored(3, PUSHED), 0)
    value = decode(DescriptionValue, 0, kept)[0]
    reads = node("in", SOURCE, source_topics=["words"], successors=["count"])
    counts = node("count", PROCESSOR, stores=["counts"], successors=["out"])
    assert value.topology_epoch == 3
    assert described(value) == describe.TopologyDescription(
        subtopologies=[
            describe.TopologyDescriptionSubtopology(
                subtopology_id="0", nodes=[reads, counts, node("out", SINK, sink_topic="result")]
            )
        ],
        global_stores=[describe.TopologyDescriptionGlobalStore(source=reads, processor=counts)],
    )


@pytest.mark.parametrize(
    ("pushed", "code"),
    [
        (
            TopologyDescription(
                subtopologies=[TopologyDescriptionSubtopology(nodes=[READS.replace(node_type=4)])],
            ),
            ErrorCode.INVALID_REQUEST,
        ),
        (
            TopologyDescription(global_stores=[TopologyDescriptionGlobalStore(source=READS, processor=WRITES)]),
            ErrorCode.INVALID_REQUEST,
        ),
        (
            TopologyDescription(
                subtopologies=[TopologyDescriptionSubtopology(nodes=[READS.replace(name="n" * 1000)] * 600)],
            ),
            ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED,
        ),
        (
            TopologyDescription(
                subtopologies=[TopologyDescriptionSubtopology(nodes=[WRITES] * MAX_NODES)],
            ),
            ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED,
        ),
        (
            TopologyDescription(
                global_stores=[
                    TopologyDescriptionGlobalStore(
                        source=READS.replace(source_topics=["a"] * MAX_NAMES), processor=COUNTS
                    )
                ],
            ),
            ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED,
        ),
    ],
)
def test_what_is_not_stored(pushed: TopologyDescription, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        stored(1, pushed)
    assert caught.value.code == code
    assert MAX_BYTES < 600_000
