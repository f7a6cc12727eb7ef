import pytest

from penstock.node.api.transactions.txn_offset_commit import _known_to
from penstock.protocol.errors import ErrorCode


@pytest.mark.parametrize("error", [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND])
def test_older_producers_are_told_of_a_generation_where_the_member_is_of_another_time(error: ErrorCode) -> None:
    told = {version: _known_to(error, version) for version in (0, 5, 6)}
    assert told == {0: ErrorCode.ILLEGAL_GENERATION, 5: ErrorCode.ILLEGAL_GENERATION, 6: error}
