"""What `penstock groups` shows of streams groups: the columns and the words of kafka-streams-groups.sh."""

import pytest
from click.testing import CliRunner

from penstock.cli.groups.streams import members_table, topology_lines
from penstock.cli.main import main
from penstock.client.admin.streams_groups import input_topics, internal_topics, partitions_of, read_topics
from penstock.client.values import TopicPartition
from penstock.protocol.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)


def ids(**partitions: list[int]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name[1:], partitions=numbers) for name, numbers in partitions.items()]


HAS = Assignment(active_tasks=ids(_0=[0, 1], _1=[1]), standby_tasks=ids(_1=[0]))
GROUP = DescribedGroup(
    group_id="app",
    group_epoch=5,
    assignment_epoch=4,
    topology=Topology(
        epoch=2,
        subtopologies=[
            Subtopology(
                subtopology_id="0",
                source_topics=["words"],
                repartition_sink_topics=["app-by-word-repartition"],
                state_changelog_topics=[TopicInfo(name="words")],
            ),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=[TopicInfo(name="app-by-word-repartition")],
                state_changelog_topics=[TopicInfo(name="app-counts-changelog")],
            ),
        ],
    ),
    members=[
        Member(
            member_id="m",
            member_epoch=4,
            process_id="p",
            client_id="c",
            assignment=HAS,
            target_assignment=Assignment(active_tasks=ids(_0=[0]), warmup_tasks=ids(_1=[2])),
        )
    ],
)


def test_members_have_tasks() -> None:
    table = members_table([GROUP], verbose=False)
    assert table.columns == ["GROUP", "MEMBER", "PROCESS", "CLIENT-ID", "ASSIGNMENTS", "HEARTBEAT-AGE"]
    assert table.rows == [("app", "m", "p", "c", "ACTIVE: 0:[0,1]; 1:[1]; STANDBY: 1:[0];", None)]


def test_members_and_what_they_are_to_have() -> None:
    table = members_table([GROUP], verbose=True)
    assert table.columns[1:6] == [
        "TARGET-ASSIGNMENT-EPOCH",
        "TOPOLOGY-EPOCH",
        "MEMBER",
        "MEMBER-PROTOCOL",
        "MEMBER-EPOCH",
    ]
    tasks = "ACTIVE: 0:[0,1]; 1:[1]; STANDBY: 1:[0]; TARGET-ACTIVE: 0:[0]; TARGET-WARMUP: 1:[2];"
    assert table.rows == [("app", 4, 2, "m", "streams", 4, "p", "c", tasks, None)]


def test_what_tasks_read_and_what_the_application_has_made() -> None:
    assert input_topics(GROUP) == ["words"]
    assert read_topics(GROUP) == ["app-by-word-repartition", "words"]
    assert internal_topics(GROUP) == ["app-by-word-repartition", "app-counts-changelog"]
    assert partitions_of(GROUP, HAS.active_tasks) == [
        TopicPartition("app-by-word-repartition", 1),
        TopicPartition("words", 0),
        TopicPartition("words", 1),
    ]


# -- the topology, as Kafka's tests of its formatter have it ----------------------------------------------------------


def source(name: str, topics: list[str], *after: str) -> TopologyDescriptionNode:
    return TopologyDescriptionNode(name=name, node_type=1, source_topics=topics, successors=list(after))


def processor(name: str, *after: str) -> TopologyDescriptionNode:
    return TopologyDescriptionNode(name=name, node_type=2, stores=["store"], successors=list(after))


def sink(name: str, topic: str | None) -> TopologyDescriptionNode:
    return TopologyDescriptionNode(name=name, node_type=3, sink_topic=topic)


def subs(*nodes: list[TopologyDescriptionNode]) -> TopologyDescription:
    return TopologyDescription(
        subtopologies=[
            TopologyDescriptionSubtopology(subtopology_id=str(number), nodes=them) for number, them in enumerate(nodes)
        ]
    )


@pytest.mark.parametrize(
    ("description", "lines"),
    [
        (TopologyDescription(), ["Topologies:"]),
        (
            subs([source("source", ["input"], "processor"), processor("processor", "sink"), sink("sink", "output")]),
            [
                "Topologies:",
                "   Sub-topology: 0",
                "    Source: source (topics: [input])",
                "      --> processor",
                "    Processor: processor (stores: [store])",
                "      --> sink",
                "      <-- source",
                "    Sink: sink (topic: output)",
                "      <-- processor",
                "",
            ],
        ),
        (
            subs([source("s0", ["i0"])], [processor("p1")]),
            [
                "Topologies:",
                "   Sub-topology: 0",
                "    Source: s0 (topics: [i0])",
                "      --> none",
                "",
                "   Sub-topology: 1",
                "    Processor: p1 (stores: [store])",
                "      --> none",
                "      <-- none",
                "",
            ],
        ),
        (
            subs([source("source", ["t2", "t1"], "p2", "p1", "sink"), sink("sink", None)]),
            [
                "Topologies:",
                "   Sub-topology: 0",
                "    Source: source (topics: [t1, t2])",
                "      --> p1, p2, sink",
                "    Sink: sink (topic: null)",
                "      <-- source",
                "",
            ],
        ),
        (
            TopologyDescription(
                subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0")],
                global_stores=[
                    TopologyDescriptionGlobalStore(source=source("g", ["t"], "p"), processor=processor("p"))
                ],
            ),
            [
                "Topologies:",
                "   Sub-topology: 0",
                "",
                "   Sub-topology: 1 for global store (will not generate tasks)",
                "    Source: g (topics: [t])",
                "      --> p",
                "    Processor: p (stores: [store])",
                "      --> none",
                "      <-- g",
                "",
            ],
        ),
    ],
)
def test_the_topology_is_drawn_as_kafka_streams_draws_it(description: TopologyDescription, lines: list[str]) -> None:
    assert topology_lines(description) == lines


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("--list --topology", "--topology goes with --describe"),
        ("--delete --group g --delete-internal-topic g-x-changelog", "goes with --reset-offsets --execute"),
        ("--describe --group g --delete-all-internal-topics", "goes with --delete, or"),
        (
            "--reset-offsets --execute --group g --all-input-topics --to-earliest --delete-internal-topic words",
            "words is no internal topic of 'g'",
        ),
        ("--delete-offsets --group g", "needs --topic NAME or --all-topics"),
    ],
)
def test_options_that_do_not_go_together(arguments: str, complaint: str) -> None:
    result = CliRunner().invoke(main, ["groups", *arguments.split()])
    assert result.exit_code == 2
    assert complaint in result.output
