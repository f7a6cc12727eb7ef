"""`penstock groups` with a streams group whose one member is the test itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.wire.raw_client import RawClient
from tests.wire.test_cli import ask, consume, create, penstock

from penstock.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TopicInfo,
    Topology,
)
from penstock.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)

MEMBER = "member-of-the-test"
KINDS = ("--consumer", "--share", "--streams", "--share --streams", "--protocol consumer", "--group-type streams")


def topology(group: str, topic: str) -> Topology:
    """Words are counted by what they are, not by where they came from."""
    repartition = f"{group}-by-word-repartition"
    return Topology(
        epoch=0,
        subtopologies=[
            Subtopology(subtopology_id="0", source_topics=[topic], repartition_sink_topics=[repartition]),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=[TopicInfo(name=repartition)],
                state_changelog_topics=[TopicInfo(name=f"{group}-counts-changelog")],
            ),
        ],
    )


@contextmanager
def running(bootstrap: str, group: str, topic: str) -> Iterator[RawClient]:
    """The group with a member that has all its tasks; it has left at the end."""
    settings = "streams.initial.rebalance.delay.ms=0,streams.assignment.interval.ms=0"
    entity = ("--entity-type", "groups", "--entity-name", group)
    penstock("configs", "--alter", *entity, "--add-config", settings, "--bootstrap-server", bootstrap)
    with RawClient(bootstrap) as client:
        joined = _beat(client, group, 0, topology=topology(group, topic), process_id="p", rebalance_timeout_ms=60_000)
        given = joined
        while not given.active_tasks:
            given = _beat(client, group, given.member_epoch)
        yield client
        _beat(client, group, -1)


def _deleted(bootstrap: str, group: str, *more: str) -> dict[str, Any]:
    (row,) = ask(bootstrap, "groups", "--delete", "--group", group, *more)
    return dict(row)


def _beat(client: RawClient, group: str, epoch: int, **more: Any) -> StreamsGroupHeartbeatResponse:
    nothing: list[StreamsGroupHeartbeatRequestTaskIds] = []
    request = StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id=MEMBER,
        member_epoch=epoch,
        active_tasks=nothing,
        standby_tasks=nothing,
        warmup_tasks=nothing,
        **more,
    )
    client.find_coordinator(group)
    answer: StreamsGroupHeartbeatResponse = client.ask(request)
    assert not answer.error_code, answer
    return answer


def described(bootstrap: str, group: str, *options: str) -> Any:
    return ask(bootstrap, "groups", "--describe", "--group", group, *options)


def test_a_streams_group_from_its_first_member_to_its_end(bootstrap: str, topic: str) -> None:
    group = f"app-{topic}"
    create(bootstrap, topic, "--partitions", "2")
    ask(bootstrap, "produce", "--topic", topic, "--sync", given="1\n2\n3\n")
    internal = [f"{group}-by-word-repartition", f"{group}-counts-changelog"]
    with running(bootstrap, group, topic) as client:
        listed = ask(bootstrap, "groups", "--list", "--streams")
        assert [(row["group"], row["type"]) for row in listed if row["group"] == group] == [(group, "streams")]
        (member,) = described(bootstrap, group, "--members")
        assert (member["member"], member["process"]) == (MEMBER, "p")
        assert member["assignments"] == "ACTIVE: 0:[0,1]; 1:[0,1];"
        (state,) = described(bootstrap, group, "--state", "--verbose")
        assert (state["assignor"], state["state"], state["#members"]) == ("sticky", "Stable", 1)
        assert state["group-epoch".replace("-", "_")] == state["target_assignment_epoch"]
        offsets = described(bootstrap, group, "--offsets")
        assert [(row["topic"], row["partition"]) for row in offsets] == [
            (name, partition) for name in sorted([internal[0], topic]) for partition in (0, 1)
        ]
        assert sum(row["offset_lag"] for row in offsets) == 3
        assert set(internal) <= set(ask(bootstrap, "topics", "--list"))
        shown = ("groups", "--describe", "--group", group, "--topology", "--bootstrap-server", bootstrap)
        assert "no topology description is stored" in penstock(*shown, exit_code=1).stderr
        pushed = client.ask(
            StreamsGroupTopologyDescriptionUpdateRequest(
                group_id=group,
                member_id=MEMBER,
                topology_description=TopologyDescription(
                    subtopologies=[
                        TopologyDescriptionSubtopology(
                            subtopology_id="0",
                            nodes=[TopologyDescriptionNode(name="reads", node_type=1, source_topics=[topic])],
                        )
                    ]
                ),
            )
        )
        assert not pushed.error_code
        assert penstock(*shown).stdout.splitlines() == [
            "Topologies:",
            "   Sub-topology: 0",
            f"    Source: reads (topics: [{topic}])",
            "      --> none",
            "",
        ]
        (drawn,) = described(bootstrap, group, "--topology")
        assert [sub["nodes"][0]["source_topics"] for sub in drawn["subtopologies"]] == [[topic]]

    reset = ("groups", "--reset-offsets", "--group", group, "--to-latest", "--execute", "--input-topic", topic)
    rows = ask(bootstrap, *reset, "--delete-internal-topic", internal[1])
    assert {(row["topic"], row["partition"]) for row in rows} == {(topic, 0), (topic, 1)}
    assert internal[1] not in ask(bootstrap, "topics", "--list")
    rows = ask(bootstrap, *reset[:-2], "--all-input-topics")
    assert sum(row["new_offset"] for row in rows) == 3
    deleted = _deleted(bootstrap, group, "--delete-all-internal-topics")
    assert deleted == {"group": group, "deleted": True, "internal_topics": internal[0]}
    left = ask(bootstrap, "topics", "--list")
    assert topic in left
    assert not set(internal) & set(left)
    assert group not in [row["group"] for row in ask(bootstrap, "groups", "--list")]


def test_groups_of_two_kinds_side_by_side(bootstrap: str, topic: str) -> None:
    group = f"app-{topic}"
    create(bootstrap, topic, "--partitions", "1")
    ask(bootstrap, "produce", "--topic", topic, "--sync", given="1\n")
    consume(bootstrap, topic, 1, "--group", f"readers-{topic}")
    with running(bootstrap, group, topic):
        found = described(bootstrap, group, "--group", f"readers-{topic}", "--state", "--members")
        listed = {
            kind: [row["group"] for row in ask(bootstrap, "groups", "--list", *kind.split()) if topic in row["group"]]
            for kind in KINDS
        }
    assert {name: [row["group"] for row in rows] for name, rows in found.items()} == {
        "state": [f"readers-{topic}"],
        "members": [],
        "streams state": [group],
        "streams members": [group],
    }
    readers, application = [f"readers-{topic}"], [group]
    assert listed == {
        "--consumer": readers,
        "--share": [],
        "--streams": application,
        "--share --streams": application,
        "--protocol consumer": readers,
        "--group-type streams": application,
    }
    assert _deleted(bootstrap, group) == {"group": group, "deleted": True}
