"""How streams groups are told of: tasks move, by the name of their subtopology and the number of their partition."""

from typing import Any

from penstock.coordinator.group.epoch_story import EpochStory, Places
from penstock.coordinator.group.streams.group import StreamsGroup
from penstock.coordinator.group.streams.state import StreamsView
from penstock.coordinator.group.streams.values import UNREVOKED_TASKS


class StreamsStory(EpochStory):
    """Of active tasks: of standbys nothing is told."""

    kind = StreamsGroup.kind
    view = StreamsView
    giving_up = UNREVOKED_TASKS

    def places(self, target: Any) -> Places:
        found: Places = target.active
        return found

    def to_give_up(self, current: Any) -> Places:
        found: Places = current.revoking.active
        return found

    def name_of(self, what: str) -> str | None:
        return what

    def holder(self, state: Any, what: str, number: int) -> str:
        found: str = state.active_runner((what, number))
        return found
