"""Who leads: workers elect the one with the largest position, everybody else the one that joined first."""

import pytest

from penstock.coordinator.group.classic.leading import elect_leader
from penstock.coordinator.group.classic.member import Caller, Member
from penstock.protocol.work import PROTOCOL_TYPE
from penstock.work.messages import Metadata, encode_metadata
from penstock.work.plan import Member as Worker


def member(name: str, metadata: bytes) -> Member:
    return Member(name, None, Caller("client", "host", 9), 60_000, 10_000, [("protocol", metadata)])


def members(*positions: int) -> list[Member]:
    return [
        member(f"m{index}", encode_metadata(Metadata(Worker(f"m{index}", position))))
        for index, position in enumerate(positions)
    ]


@pytest.mark.parametrize(
    ("positions", "leader"), [((1, 3, 2), "m1"), ((2, 2), "m0"), ((-5,), "m0"), ((0, -3, 7), "m2")]
)
def test_workers(positions: tuple[int, ...], leader: str) -> None:
    assert elect_leader(PROTOCOL_TYPE, "m0", members(*positions)) == leader


def test_a_worker_that_says_no_position_leads_if_it_is_alone() -> None:
    assert elect_leader(PROTOCOL_TYPE, None, [member("m0", b"")]) == "m0"


@pytest.mark.parametrize("protocol_type", ["consumer", "connect", None])
def test_all_others_keep_whom_they_have_or_take_the_first(protocol_type: str | None) -> None:
    assert elect_leader(protocol_type, None, members(1, 3, 2)) == "m0"
    assert elect_leader(protocol_type, "m2", members(1, 3, 2)) == "m2"


@pytest.mark.parametrize("protocol_type", [PROTOCOL_TYPE, "consumer"])
def test_nobody(protocol_type: str) -> None:
    assert elect_leader(protocol_type, "m0", []) is None
