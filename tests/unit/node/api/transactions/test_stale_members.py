from penstock.node.api.transactions.txn_offset_commit import _known_to
from penstock.protocol.errors import ErrorCode


def test_older_producers_are_told_of_a_generation_where_the_epoch_is_stale() -> None:
    told = {version: _known_to(ErrorCode.STALE_MEMBER_EPOCH, version) for version in (0, 5, 6)}
    assert told == {
        0: ErrorCode.ILLEGAL_GENERATION,
        5: ErrorCode.ILLEGAL_GENERATION,
        6: ErrorCode.STALE_MEMBER_EPOCH,
    }
