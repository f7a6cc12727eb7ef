"""What `penstock dump-log` makes of the records of groups."""

from penstock.cli.dump.records import decode_offsets
from penstock.coordinator.group.group_log import encoded
from penstock.coordinator.group.records import HistoryRecord
from penstock.protocol.records import Record
from penstock.protocol.requests.own_apis import GroupEpoch


def test_what_happened_in_a_group_is_shown() -> None:
    value = encoded(GroupEpoch(number=3, kind="consumer", epoch=7, members=2))
    key, _ = HistoryRecord("readers", 3, value).encode()
    shown = decode_offsets(Record(timestamp_ms=0, key=key, value=value))
    assert shown["key"] == {"type": "group_history", "group": "readers", "slot": 3}
    payload = shown["payload"]
    assert isinstance(payload, dict)
    assert (payload["number"], payload["kind"], payload["epoch"], payload["members"]) == (3, "consumer", 7, 2)
    assert decode_offsets(Record(timestamp_ms=0, key=key, value=None))["payload"] is None
