"""The classic protocol as a kind of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.restore import restore_group
from penstock.coordinator.group.classic.unsettled import unsettled_record
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.group.table import GroupKind, GroupTable

if TYPE_CHECKING:
    from penstock.coordinator.group.historian import Story


def _create(group_id: str, now_ms: int, settings: GroupSettings) -> ClassicGroup:
    return ClassicGroup(group_id, now_ms)


def _story(table: GroupTable) -> Story:
    from penstock.coordinator.group.classic.story import ClassicStory

    return ClassicStory(table.groups)


CLASSIC: Final = GroupKind(ClassicGroup.kind, _create, restore_group, unsettled_record, _story)
