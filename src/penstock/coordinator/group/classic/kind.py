"""The classic protocol as a kind of groups."""

from typing import Final

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.restore import restore_group
from penstock.coordinator.group.classic.unsettled import unsettled_record
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.group.table import GroupKind


def _create(group_id: str, now_ms: int, settings: GroupSettings) -> ClassicGroup:
    return ClassicGroup(group_id, now_ms, settings.history_length)


CLASSIC: Final = GroupKind(ClassicGroup.kind, _create, restore_group, unsettled_record)
