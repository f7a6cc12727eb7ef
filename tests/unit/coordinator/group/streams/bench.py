"""A shard with streams groups, and a cluster of topics. Applications count words: `words` is read by its first
subtopology, which writes a repartition topic, and the second one counts in a store with a changelog.
"""

from __future__ import annotations

from typing import Any

from tests.unit.coordinator.group.share.bench import Bench as ShardBench

from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.settings import Bounded, GroupSettings, StreamsSettings
from penstock.coordinator.group.streams.group import StreamsGroup
from penstock.coordinator.group.streams.requests import Heard
from penstock.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TopicInfo,
    Topology,
)

GROUP = "wordcount"
CALLER = Caller("test", "/10.0.0.1", 1)
SESSION_MS = 45_000
REBALANCE_MS = 30_000
NOW = StreamsSettings(assignment_interval=Bounded(0, 0, 0), initial_rebalance_delay=Bounded(0, 0, 0))
AT_ONCE = GroupSettings(streams=NOW)
Has = tuple[dict[str, list[int]], dict[str, list[int]], dict[str, list[int]]]


def topology(epoch: int = 1, *, source: str = "words") -> Topology:
    return Topology(
        epoch=epoch,
        subtopologies=[
            Subtopology(subtopology_id="0", source_topics=[source], repartition_sink_topics=["by-word"]),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=[TopicInfo(name="by-word", partitions=0)],
                state_changelog_topics=[TopicInfo(name="counts")],
            ),
        ],
    )


def tasks(**said: list[int]) -> list[StreamsGroupHeartbeatRequestTaskIds]:
    """`s0=[1]` is task 0_1."""
    return [StreamsGroupHeartbeatRequestTaskIds(subtopology_id=key[1:], partitions=some) for key, some in said.items()]


class Bench(ShardBench):
    """`has` is what each member was told last to run: as active, as standby and as warm-up."""

    def __init__(self, settings: GroupSettings = AT_ONCE, **topics: int) -> None:
        super().__init__(settings, **(topics or {"words": 2}))
        self.runs: dict[str, Has] = {}
        self.heard: dict[str, Heard] = {}

    def make_internal_topics(self, partitions: int = 2) -> None:
        self.grow("by-word", partitions)
        self.grow("counts", partitions)

    def beat(self, member_id: str, epoch: int, *, caller: Caller = CALLER, **fields: Any) -> Any:
        """The answer, or None if there is none yet."""
        request = StreamsGroupHeartbeatRequest(group_id=GROUP, member_id=member_id, member_epoch=epoch)
        token = (member_id, epoch)
        self.replies.pop(token, None)
        self.take(self.shard.streams_heartbeat(token, request.replace(**fields), caller, self.now_ms))
        heard = self.replies.get(token)
        if not isinstance(heard, Heard):
            return None
        self.heard[member_id] = heard
        self._told(member_id, heard.response)
        return heard.response

    def _told(self, member_id: str, response: StreamsGroupHeartbeatResponse) -> None:
        roles = (response.active_tasks, response.standby_tasks, response.warmup_tasks)
        if response.active_tasks is not None:
            active, standby, warmup = ({one.subtopology_id: one.partitions for one in some or ()} for some in roles)
            self.runs[member_id] = active, standby, warmup

    def join(self, member_id: str, *topics: str, **fields: Any) -> Any:
        said: dict[str, Any] = {
            "rebalance_timeout_ms": REBALANCE_MS,
            "topology": topology(),
            "process_id": f"process of {member_id}",
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
        }
        return self.beat(member_id, 0, **(said | fields))

    def obey(self, member_id: str) -> Any:
        """A heartbeat that says that the member has what it was told to have."""
        roles = self.runs.get(member_id, ({}, {}, {}))
        active, standby, warmup = (
            [StreamsGroupHeartbeatRequestTaskIds(subtopology_id=name, partitions=some) for name, some in role.items()]
            for role in roles
        )
        epoch = self.streams.state.current(member_id).epoch
        return self.beat(member_id, epoch, active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)

    def settle(self, *member_ids: str) -> Any:
        """What each runs as active, after some heartbeats."""
        for _ in range(6):
            for member_id in member_ids:
                self.obey(member_id)
        return {member_id: self.runs[member_id][0] for member_id in member_ids}

    def statuses(self, member_id: str) -> list[int]:
        return [status.status_code for status in self.heard[member_id].response.status or ()]

    @property
    def streams(self) -> StreamsGroup:
        found = self.shard._table.groups[GROUP]
        assert isinstance(found, StreamsGroup)
        return found
