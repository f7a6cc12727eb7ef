"""What `penstock groups` shows of a group."""

from penstock.cli.groups.views import members_table
from penstock.client.admin.groups import GroupDescription, MemberDescription
from penstock.client.values import TopicPartition
from penstock.work.incremental import Step
from penstock.work.messages import Assignment, Metadata, encode_assignment, encode_metadata
from penstock.work.plan import Member


def group(protocol: str, *members: MemberDescription) -> GroupDescription:
    return GroupDescription("g", "Stable", protocol, "plan", 1, list(members))


def member(
    name: str, assignment: list[TopicPartition], metadata: bytes = b"", assigned: bytes = b""
) -> MemberDescription:
    return MemberDescription(name, None, f"client-{name}", "/127.0.0.1", assignment, metadata, assigned)


def test_the_tasks_of_workers_are_shown() -> None:
    plan = Assignment("one", "http://one", Step({"one": ("task-a-0", "task-a-1"), "two": ()}, (), ()))
    workers = [
        member(name, [], encode_metadata(Metadata(Member(name, 0, (), 1))), encode_assignment(plan))
        for name in ("one", "two")
    ]
    table = members_table([group("penstock-work", *workers, member("new", []))], verbose=True)
    shown = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [(row["CONSUMER-ID"], row["TASKS"], row["ASSIGNMENT"]) for row in shown] == [
        ("one", 2, "task-a-0 task-a-1"),
        ("two", 0, ""),
        ("new", 0, ""),
    ]


def test_consumers_have_partitions_alone() -> None:
    table = members_table([group("consumer", member("one", [TopicPartition("t", 0), TopicPartition("t", 1)]))], True)
    assert "TASKS" not in table.columns
    assert table.rows[0][-1] == "t(0,1)"


def test_how_long_nothing_was_heard_of_a_member_is_shown_where_it_is_known() -> None:
    heard, unknown = member("one", []).replace(heartbeat_age_ms=1200), member("two", [])
    table = members_table([group("consumer", heard, unknown)], verbose=False)
    assert [row[table.columns.index("HEARTBEAT-AGE")] for row in table.rows] == [1200, None]
