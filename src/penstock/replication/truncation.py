"""Where a follower cuts its log when the leader says that theirs have parted (KIP-101, KIP-279, KIP-595)."""

from collections.abc import Callable

UNDEFINED = -1


def truncation_offset(
    leader_epoch: int,
    leader_end_offset: int,
    *,
    own_end_for: Callable[[int], tuple[int, int]],
    log_end_offset: int,
    high_watermark: int,
) -> int:
    """Where the follower cuts its log, so that the next fetch finds a common past or an earlier place to part from.

    The leader has answered that the newest of its epochs that is not above the follower's last one is `leader_epoch`,
    and that it ends at `leader_end_offset`. `own_end_for(epoch)` is the follower's own (epoch, end offset) in the same
    sense, (-1, -1) if it has none. A follower that knows no epochs goes back to its high watermark.
    """
    if leader_end_offset == UNDEFINED:
        return min(high_watermark, log_end_offset)
    own_epoch, own_end_offset = own_end_for(leader_epoch)
    if own_end_offset == UNDEFINED:
        return min(leader_end_offset, log_end_offset)
    if own_epoch != leader_epoch:  # the leader lacks that epoch as well, or has another one: ask again from there
        return min(own_end_offset, log_end_offset)
    return min(own_end_offset, leader_end_offset, log_end_offset)
