"""Which protocol a group takes, and what an answer that says no is like."""

from penstock.coordinator.group.classic.answers import join_error
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.member import Caller, Member
from penstock.protocol.errors import ErrorCode


def group_of(*supported: str) -> ClassicGroup:
    """A group whose members support these protocols, one letter each, and like the first best."""
    group = ClassicGroup("g", 0)
    for number, names in enumerate(supported):
        protocols = [(name, b"") for name in names]
        group.add(Member(f"m{number}", None, Caller("client", "host", 9), 60_000, 10_000, protocols), "consumer")
    return group


def test_the_protocol_that_most_members_like_best_is_taken() -> None:
    assert group_of("ab", "ba", "ba").select_protocol() == "b"
    assert group_of("ab", "ab", "ba").select_protocol() == "a"


def test_a_protocol_that_a_member_lacks_is_not_taken() -> None:
    assert group_of("cab", "ca", "a").select_protocol() == "a"
    assert group_of().select_protocol() is None


def test_a_join_that_is_refused_has_no_generation() -> None:
    assert join_error(ErrorCode.UNKNOWN_MEMBER_ID, "m").generation_id == -1
