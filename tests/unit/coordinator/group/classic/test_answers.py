"""What members are told besides their assignment."""

from tests.unit.coordinator.group.consumer.both import Both

from penstock.coordinator.group.settings import GroupSettings


def test_all_are_told_the_type_of_the_protocol() -> None:
    bench = Both(GroupSettings(initial_rebalance_delay_ms=0))
    ids = [bench.newcomer("a") for _ in range(2)]
    bench.advance(1)
    told = [bench.replies["join", member_id] for member_id in ids]
    assert [(one.error_code, one.protocol_type, one.protocol_name) for one in told] == [(0, "consumer", "range")] * 2
    assert [one.leader for one in told] == [ids[0]] * 2
