"""Lag of streams groups: of what is read, from which offset, and which topics are the application's own."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest
from tests.unit.cli.groups.test_streams import GROUP

from penstock.cli.groups import streams
from penstock.cli.groups.streams import check_own, delete_topics, offsets_table, own_topics, show_topologies
from penstock.client.admin import Admin
from penstock.client.at_leaders import Failures
from penstock.client.values import EARLIEST, LATEST, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.streams_group_describe import TopologyDescription

W0, W1, W2 = (TopicPartition("words", number) for number in range(3))
OWN1 = TopicPartition("app-by-word-repartition", 1)
OTHER = TopicPartition("other", 0)


class FakeAdmin:
    """Committed offsets with their epochs, where logs begin and end, and what cannot be had."""

    def __init__(self) -> None:
        self.committed = {W0: (4, 7), W2: (6, -1), OTHER: (1, 1)}
        self.bounds = {W0: (0, 10), W1: (3, 11), W2: (0, 6), OWN1: (5, 5)}
        self.errors: dict[tuple[int, TopicPartition], KafkaError] = {}
        self.asked: list[Any] = []
        self.deleted: list[str] = []
        self.found = GROUP
        self.groups = SimpleNamespace(offsets=self._offsets)
        self.topics = SimpleNamespace(delete=self._delete)
        self.streams_groups = SimpleNamespace(describe=self._describe)

    async def _offsets(self, group_id: str) -> Mapping[TopicPartition, Any]:
        assert group_id == "app"
        return {one: SimpleNamespace(offset=at, leader_epoch=epoch) for one, (at, epoch) in self.committed.items()}

    async def offsets_that_can_be_had(
        self, wanted: Mapping[TopicPartition, int]
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        self.asked.append({str(one): moment for one, moment in wanted.items()})
        failed = {one: self.errors[moment, one] for one, moment in wanted.items() if (moment, one) in self.errors}
        which = {EARLIEST: 0, LATEST: 1}
        found = {one: self.bounds[one][which[moment]] for one, moment in wanted.items() if one not in failed}
        return {one: SimpleNamespace(offset=offset) for one, offset in found.items()}, failed

    async def _describe(self, _: str, *, with_topology_description: bool = False) -> Any:
        return self.found

    async def _delete(self, name: str) -> None:
        if name == "gone":
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if name == "kept":
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        self.deleted.append(name)

    @property
    def it(self) -> Admin:
        return cast("Admin", self)


async def rows(admin: FakeAdmin, *, verbose: bool = True) -> tuple[list[Any], Failures]:
    failures: Failures = {}
    table = await offsets_table(admin.it, [GROUP], verbose, failures)
    return list(table.rows), failures


async def test_what_was_never_committed_is_to_be_read_from_the_beginning() -> None:
    admin = FakeAdmin()
    found, failures = await rows(admin)
    assert found == [
        ("app", *OWN1, None, None, 5, 0),
        ("app", *W0, 4, 7, 10, 6),
        ("app", *W1, None, None, 11, 8),
        ("app", *W2, 6, None, 6, 0),
    ]
    assert failures == {}
    places = [str(one) for one in (OWN1, W0, W1, W2)]
    assert admin.asked == [dict.fromkeys(places, LATEST), {str(OWN1): EARLIEST, str(W1): EARLIEST}]
    assert (await rows(admin, verbose=False))[0][1] == ("app", *W0, 6)


async def test_what_cannot_be_had_is_told_but_for_partitions_that_there_are_not() -> None:
    admin = FakeAdmin()
    missing, refused = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    admin.errors = {(LATEST, OWN1): missing, (LATEST, W0): refused, (EARLIEST, W1): refused}
    found, failures = await rows(admin)
    assert found == [("app", *W1, None, None, 11, None), ("app", *W2, 6, None, 6, 0)]
    assert failures == {W0: refused}


# -- topologies -------------------------------------------------------------------------------------------------------

NOT_STORED = "no topology description is stored for streams group 'app'"
NOT_FETCHED = "the broker failed to fetch the topology description of 'app': its log says why"


@pytest.mark.parametrize(
    ("status", "described", "complaint"),
    [
        (streams._AVAILABLE, TopologyDescription(), None),
        (streams._AVAILABLE, None, "no topology description is stored for streams group 'app'"),
        (streams._ERROR, None, "the broker failed to fetch the topology description of 'app': its log says why"),
        (
            streams._ERROR,
            TopologyDescription(),
            "the broker failed to fetch the topology description of 'app': its log says why",
        ),
        (0, TopologyDescription(), "no topology description is stored for streams group 'app'"),
    ],
)
async def test_a_topology_that_is_there_or_not(
    status: int, described: TopologyDescription | None, complaint: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = FakeAdmin()
    admin.found = cast("Any", SimpleNamespace(topology_description_status=status, topology_description=described))
    if complaint is None:
        await show_topologies(admin.it, ["app", "app"], as_json=False)
        assert capsys.readouterr().out == "Topologies:\nTopologies:\n"
        return
    with pytest.raises(click.ClickException) as raised:
        await show_topologies(admin.it, ["app", "app"], as_json=False)
    assert raised.value.message == f"{complaint}; {complaint}"
    assert capsys.readouterr().out == ""


# -- topics of its own ------------------------------------------------------------------------------------------------


async def test_topics_that_are_not_called_like_its_own_stay(capsys: pytest.CaptureFixture[str]) -> None:
    admin = FakeAdmin()
    assert await own_topics(admin.it, "app") == ["app-by-word-repartition", "app-counts-changelog"]
    assert capsys.readouterr() == ("", "")
    assert await own_topics(admin.it, "other") == []
    told = "is not called like an internal topic of 'other', so it is not deleted\n"
    names = ("app-by-word-repartition", "app-counts-changelog")
    assert capsys.readouterr().err == "".join(f"{name} {told}" for name in names)


async def test_topics_that_are_gone_are_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    admin = FakeAdmin()
    assert await delete_topics(admin.it, ["a", "gone", "b"]) == ["a", "b"]
    assert (admin.deleted, capsys.readouterr().err) == (["a", "b"], "topic gone does not exist\n")
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        await delete_topics(admin.it, ["kept", "c"])
    assert admin.deleted == ["a", "b"]


def test_only_its_own_topics_may_be_named() -> None:
    check_own("app", [])
    check_own("app", ["app-x-changelog", "app-y-repartition"])
    with pytest.raises(click.UsageError) as raised:
        check_own("app", ["app-x-changelog", "app-x"])
    assert raised.value.message == "--delete-internal-topic: app-x is no internal topic of 'app'"
