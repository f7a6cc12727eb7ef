"""What a log is told where nothing is set is what the configs of topics have as their defaults."""

import pytest
from tests.unit.node.contexts import embedded

from penstock.log.config import CREATE_TIME, INT64_MAX, LOG_APPEND_TIME, LogConfig
from penstock.node.partitions.topic_settings import TopicSettingsTable


def test_what_is_not_set_is_the_default_of_its_key() -> None:
    assert TopicSettingsTable(embedded()).settings({}).log == LogConfig()


@pytest.mark.parametrize("delays", [True, False])
@pytest.mark.parametrize("policy", [(), ("delete",), ("compact",), ("compact", "delete")])
def test_a_topic_is_compacted_where_no_record_waits(policy: tuple[str, ...], *, delays: bool) -> None:
    config = LogConfig(cleanup_policy=frozenset(policy), penstock_delay_enable=delays)
    assert config.is_compacted is ("compact" in policy and not delays)
    assert config.deletes is ("delete" in policy)


@pytest.mark.parametrize(
    ("policy", "segment_ms", "lag_ms", "longest_ms"),
    [("delete", 7, 5, 7), ("compact", 7, 5, 5), ("compact", 7, 9, 7), ("compact", 7, INT64_MAX, 7)],
)
def test_a_segment_ends_before_what_it_has_must_be_compacted(
    policy: str, segment_ms: int, lag_ms: int, longest_ms: int
) -> None:
    config = LogConfig(cleanup_policy=frozenset({policy}), segment_ms=segment_ms, max_compaction_lag_ms=lag_ms)
    assert config.longest_segment_ms == longest_ms


def test_times_are_those_of_the_append_where_that_is_set() -> None:
    found = {
        kind: LogConfig(message_timestamp_type=kind).uses_log_append_time for kind in (CREATE_TIME, LOG_APPEND_TIME)
    }
    assert found == {"CreateTime": False, "LogAppendTime": True}
