from penstock.protocol.records import Record, encode_batch
from penstock.raft.ports import SnapshotId
from penstock.replicated.machine import StateMachine
from penstock.replicated.replica import Replica


class Applied(StateMachine[int]):
    """The result of an entry is how many were applied."""

    def __init__(self) -> None:
        self.count = 0
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True

    def apply(self, entry: Record) -> int:
        self.count += 1
        return self.count

    def snapshot(self) -> list[Record]:
        return []

    def restore(self, piece: Record) -> None:
        raise AssertionError("there is no piece")


def commit(replica: Replica[Applied], offset: int, epoch: int, value: bytes | None = b"1") -> None:
    batch = encode_batch([Record(value=value)], base_offset=offset, partition_leader_epoch=epoch)
    replica.committed(bytes(batch), offset, offset)


def test_an_entry_of_another_leader_at_the_same_offset_gives_no_result() -> None:
    replica = Replica(Applied)
    replica.expect(epoch=1, offset=5)
    replica.expect(epoch=3, offset=5)
    commit(replica, 5, epoch=3)
    assert (replica.take_result(1, 5), replica.take_result(3, 5)) == (None, 1)


def test_the_mark_of_a_read_does_not_reach_the_machine() -> None:
    replica = Replica(Applied)
    commit(replica, 5, epoch=1, value=None)
    assert (replica.machine.count, replica.end_offset) == (0, 6)


def test_a_machine_that_a_snapshot_replaces_is_closed() -> None:
    replica = Replica(Applied)
    commit(replica, 5, epoch=1)
    before = replica.machine
    replica._begin_anew(Applied(), SnapshotId(9, 2))
    assert before.is_closed
    assert (replica.machine.is_closed, replica.machine.count, replica.end_offset) == (False, 0, 9)
