"""What a log is told where nothing is set is what the configs of topics have as their defaults."""

from tests.unit.node.contexts import embedded

from penstock.log.config import LogConfig
from penstock.node.partitions.topic_settings import TopicSettingsTable


def test_what_is_not_set_is_the_default_of_its_key() -> None:
    assert TopicSettingsTable(embedded()).settings({}).log == LogConfig()
