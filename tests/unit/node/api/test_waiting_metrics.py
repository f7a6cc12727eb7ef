"""How many records wait is counted in steps, however many settings and partitions there are."""

from types import SimpleNamespace
from typing import Any, cast

from penstock.metadata.configs.topic import DELAY_ENABLE
from penstock.metadata.resources import ConfigResource, ResourceType
from penstock.node.api.describe_metrics import LOOKED_AT, MOST_DELAYED, waiting
from penstock.node.roles.broker import Broker
from penstock.protocol.requests.own_apis import Metric

DELAYS = {DELAY_ENABLE: "TRUE"}


def counted(settings: dict[str, dict[str, str]], partitions: list[Any]) -> tuple[int, list[Metric]]:
    """Steps, and what is told."""
    configs = {ConfigResource(ResourceType.TOPIC, name): one for name, one in settings.items()}
    table = SimpleNamespace(of_topic=lambda _: partitions)
    broker = SimpleNamespace(image=SimpleNamespace(configs=configs), partitions=table)
    steps, made = waiting(cast("Broker", broker)), 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return made, end.value
        made += 1


def test_settings_and_partitions_are_gone_through_in_steps() -> None:
    many = 10 * LOOKED_AT
    assert counted({f"t-{number}": {"retention.ms": "1"} for number in range(many)}, []) == (10, [])
    partitions = [SimpleNamespace(waiting=None), *(SimpleNamespace(waiting=(2, 5)) for _ in range(many - 1))]
    made, (told,) = counted({"t": DELAYS}, partitions)
    assert (made, told.name, told.value) == (10, "topic-t.waiting", str(2 * (many - 1)))


def test_nothing_is_told_of_topics_that_are_led_elsewhere_and_not_of_more_than_the_limit() -> None:
    assert counted({"t": DELAYS}, [SimpleNamespace(waiting=None)])[1] == []
    topics = {f"t-{number}": DELAYS for number in range(MOST_DELAYED + 9)}
    assert len(counted(topics, [SimpleNamespace(waiting=(0, 5))])[1]) == MOST_DELAYED
