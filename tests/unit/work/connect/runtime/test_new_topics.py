"""`topic.creation.*`: which new topic is made how."""

from typing import Any, cast

import pytest
from tests.unit.work.connect.runtime.test_running_tasks import CONFIG, Host, Kafka, Setting

from penstock.client.admin.topics import NewTopic
from penstock.work.connect.config import ConfigError
from penstock.work.connect.runtime.new_topics import NewTopics, topic_groups
from penstock.work.connect.runtime.running_tasks import RunningSource

DEFAULT = {"topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "-1"}
COMPACTED = {
    "topic.creation.groups": "compacted,default",
    "topic.creation.compacted.include": "row.*,.*-keys",
    "topic.creation.compacted.exclude": "rowdy",
    "topic.creation.compacted.partitions": "1",
    "topic.creation.compacted.cleanup.policy": "compact",
}


@pytest.mark.parametrize(
    ("topic", "partitions", "configs"),
    [
        ("rows", 1, {"cleanup.policy": "compact"}),
        ("a-keys", 1, {"cleanup.policy": "compact"}),
        ("rowdy", 3, {}),
        ("narrow", 3, {}),
    ],
)
def test_the_first_group_that_takes_a_topic_says_how_it_is_made(
    topic: str, partitions: int, configs: dict[str, str]
) -> None:
    groups = topic_groups(DEFAULT | COMPACTED)
    made = next(group for group in groups if group.takes(topic)).new_topic(topic)
    assert made == NewTopic(name=topic, partitions=partitions, replication_factor=-1, configs=configs)


def test_the_default_group_takes_everything() -> None:
    (group,) = topic_groups(DEFAULT | {"topic.creation.default.include": "only"})
    assert group.takes("another")


def test_without_keys_brokers_make_topics() -> None:
    assert topic_groups({"topic": "t"}) == ()


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"topic.creation.default.partitions": "0"}, "topic.creation.default.partitions"),
        ({"topic.creation.default.replication.factor": "-2"}, "topic.creation.default.replication.factor"),
        ({"topic.creation.default.partitions": None}, "topic.creation.default.partitions"),
        ({"topic.creation.groups": "a,a"}, "topic.creation.groups"),
        ({"topic.creation.groups": "a", "topic.creation.a.include": "("}, "topic.creation.a.include"),
    ],
)
def test_what_cannot_be(change: dict[str, str | None], key: str) -> None:
    config = {name: value for name, value in (DEFAULT | change).items() if value is not None}
    with pytest.raises(ConfigError) as raised:
        topic_groups(config)
    assert raised.value.errors.keys() == {key}


class FakeAdmin:
    """Has the topic `old`."""

    def __init__(self) -> None:
        self.topics = self
        self.made: list[NewTopic] = []

    async def __aenter__(self) -> "FakeAdmin":
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def is_there(self, name: str) -> bool:
        return name == "old"

    async def create_unless_there(self, topic: NewTopic) -> None:
        self.made.append(topic)


@pytest.mark.parametrize(
    ("config", "topic", "made"), [(DEFAULT, "new", ["new"]), (DEFAULT, "old", []), ({"topic": "t"}, "new", [])]
)
async def test_a_topic_is_made_that_is_not_there(config: dict[str, str], topic: str, made: list[str]) -> None:
    admin = FakeAdmin()
    await NewTopics(topic_groups(config), lambda: cast("Any", admin)).make(topic)
    assert [one.name for one in admin.made] == made


@pytest.mark.parametrize("makes_topics", [True, False])
async def test_topics_are_made_where_the_worker_does_so(makes_topics: bool) -> None:
    setting = Setting("")
    environment = setting.task.environment.replace(makes_topics=makes_topics)
    numbers = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
    task: Any = None
    one = setting.task.replace(config=CONFIG | numbers, environment=environment)
    running = RunningSource(one, task, Host(Kafka()), setting.attempt)
    assert len(running._new_topics._groups) == makes_topics
    setting.attempt.calls.close()
