"""Which partitions `penstock topics --describe` shows, and what it does without the right to see moves."""

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.cli.records.topics import Filters, _moving, _replication
from penstock.client.admin.partitions import Reassignment
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError

NAMES = (
    "under_replicated_partitions",
    "unavailable_partitions",
    "under_min_isr_partitions",
    "at_min_isr_partitions",
    "topics_with_overrides",
)


def filters(*names: str) -> Filters:
    return Filters(**{name: name in names for name in NAMES})


@pytest.mark.parametrize("name", ["", *NAMES])
def test_what_filters_ask_for(name: str) -> None:
    one = filters(name)
    assert one.needs_min_isr == (name in NAMES[2:4])
    assert one.on_partitions == (name in NAMES[:4])


@pytest.mark.parametrize(("replicas", "isr", "coming", "min_isr"), list(product((2, 3), (0, 1, 2, 3), (0, 1), (1, 2))))
@pytest.mark.parametrize("is_led", [True, False])
def test_each_filter_shows_its_own(replicas: int, isr: int, coming: int, min_isr: int, is_led: bool) -> None:
    row: Any = SimpleNamespace(replicas=[*range(replicas)], isr=[*range(isr)])
    expected = {
        "": True,
        "under_replicated_partitions": isr < replicas - coming,
        "unavailable_partitions": not is_led,
        "under_min_isr_partitions": not is_led or isr < min_isr,
        "at_min_isr_partitions": isr == min_isr,
        "topics_with_overrides": True,
    }
    for name, is_shown in expected.items():
        assert filters(name).shows(row, min_isr, coming=coming, is_led=is_led) == is_shown, name
    both = filters("under_replicated_partitions", "at_min_isr_partitions")
    either = expected["under_replicated_partitions"] or expected["at_min_isr_partitions"]
    assert both.shows(row, min_isr, coming=coming, is_led=is_led) == either


async def moving(answer: object) -> Any:
    async def reassignments() -> object:
        if isinstance(answer, ErrorCode):
            raise KafkaError(answer)
        return answer

    admin: Any = SimpleNamespace(partitions=SimpleNamespace(reassignments=reassignments))
    return await _moving(admin)


async def test_who_may_not_see_moves_sees_none() -> None:
    found = {TopicPartition("t", 0): Reassignment((1, 2), (2,), ())}
    assert await moving(found) == found
    assert await moving(ErrorCode.CLUSTER_AUTHORIZATION_FAILED) == {}
    with pytest.raises(KafkaError) as caught:
        await moving(ErrorCode.NOT_CONTROLLER)
    assert caught.value.code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize(("counts", "most"), [([], 0), ([1], 1), ([1, 3, 2], 3)])
def test_the_replication_of_a_topic_is_that_of_its_widest_partition(counts: list[int], most: int) -> None:
    rows = {number: SimpleNamespace(replicas=[*range(count)]) for number, count in enumerate(counts)}
    topic: Any = SimpleNamespace(partitions=rows)
    assert _replication(topic) == most
