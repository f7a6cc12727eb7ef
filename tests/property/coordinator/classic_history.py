"""What the history of classic groups must tell, worked out from the other records of the log: each generation that is
written is told once, in the batch that writes it, with those who came and went since the one before it.
"""

from collections.abc import Sequence

from penstock.coordinator.effects import KeyValue
from penstock.coordinator.group.group_log import GroupLog
from penstock.coordinator.group.records import GroupMetadataValue, GroupRecord, HistoryRecord, decode_record
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.shards.groups import GroupShard
from penstock.protocol.requests.own_apis import GroupEpoch, What

CAME = (What.JOINED, What.REPLACED)
STAYED = (What.SUBSCRIPTION, What.METADATA)


class ClassicHistory:
    def __init__(self) -> None:
        self.told: dict[str, list[int]] = {}
        """The generations of each group that is there."""
        self._last: dict[str, GroupMetadataValue] = {}
        """The last record of each group in which a generation was told."""

    def committed(self, records: Sequence[KeyValue]) -> None:
        decoded = [decode_record(key, value) for key, value in records]
        for record in decoded:
            if isinstance(record, GroupRecord):
                told = [
                    epoch
                    for one in decoded
                    if isinstance(one, HistoryRecord) and one.group_id == record.group_id and one.value is not None
                    for epoch in GroupLog(one.group_id, {0: one.value}, 1).newest()
                ]
                self._check(record, told)

    def check(self, shard: GroupShard, now_ms: int) -> None:
        for group_id, generations in self.told.items():
            epochs = shard.describe_history(group_id, now_ms).epochs
            assert [one.epoch for one in epochs] == generations[-GroupSettings().history_length :]

    def _check(self, record: GroupRecord, told: list[GroupEpoch]) -> None:
        group_id, value = record.group_id, record.value
        if value is None:
            assert not told
            self.told.pop(group_id, None)
            self._last.pop(group_id, None)
            return
        generations = self.told.setdefault(group_id, [])
        is_new = value.generation not in generations
        assert [one.epoch for one in told] == [value.generation] * is_new
        if is_new:
            generations.append(value.generation)
            self._check_who(told[0], self._last.get(group_id, GroupMetadataValue()), value)
        self._last[group_id] = value

    def _check_who(self, epoch: GroupEpoch, before: GroupMetadataValue, value: GroupMetadataValue) -> None:
        were, now = ({one.member_id: one.group_instance_id for one in group.members} for group in (before, value))
        said = {one.member_id: What(one.what) for one in epoch.changes}
        assert {name for name, what in said.items() if what in CAME} == now.keys() - were.keys()
        back = {now[name] for name, what in said.items() if what is What.REPLACED}
        went = {name for name in were.keys() - now.keys() if were[name] is None or were[name] not in back}
        assert {name for name, what in said.items() if what not in (*CAME, *STAYED)} == went
        assert all(were[name] is not None for name, what in said.items() if what is What.GONE)
        assert epoch.ended_ms >= epoch.started_ms >= 0
        assert epoch.members == len(now)
        assert epoch.cause
