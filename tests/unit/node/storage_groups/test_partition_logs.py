from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest
from tests.unit.node.lone_group import CONFIG

from penstock.metadata.image import ClusterImage
from penstock.metadata.records import TopicRecord
from penstock.node.environment.context import NodeContext
from penstock.node.storage_groups.partition_logs import PartitionLogs

KNOWN, OTHER = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize(
    ("topic_id", "since", "is_removed"),
    [(KNOWN, 5, False), (KNOWN, 11, False), (OTHER, 9, True), (OTHER, 10, True), (OTHER, 11, False)],
    ids=["there", "there, and made anew", "gone", "gone just now", "the metadata are behind"],
)
def test_a_topic_is_removed_if_it_was_known_and_is_no_more(topic_id: UUID, since: int, is_removed: bool) -> None:
    image = ClusterImage()
    image.apply(TopicRecord(name="orders", topic_id=KNOWN))
    image.applied_to(10)
    context = cast("NodeContext", SimpleNamespace(image=image, directories=None, now_ms=None))
    assert PartitionLogs(context, lambda _: CONFIG).is_removed(topic_id, since) is is_removed
