"""What a start after a crash writes: only what is not as it should be."""

from pathlib import Path
from unittest.mock import Mock

import pytest
from tests.unit.log.logs import append, batch, open_log

from penstock.log import loading, recovery
from penstock.log.config import LogConfig
from penstock.log.disk import Disk, OpenFile
from penstock.protocol.errors import ErrorCode, KafkaError

EPOCHS = "leader-epoch-checkpoint"


class NotingDisk(Disk):
    """Notes the names of the files that are replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.replaced: list[str] = []

    def replace_file(self, path: str, content: bytes, *, durable: bool) -> None:
        self.replaced.append(path.rpartition("/")[2])
        super().replace_file(path, content, durable=durable)


def recovered(path: Path) -> list[str]:
    """The files that opening the log after a crash replaces."""
    disk = NotingDisk()
    assert open_log(path, disk=disk).log_end_offset == 2
    return disk.replaced


def test_epochs_are_written_only_where_they_changed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for epoch in (0, 3):
        append(log, batch(), epoch=epoch)
    log.flush()
    checkpoint = tmp_path / "t-0" / EPOCHS
    expected = checkpoint.read_bytes()
    assert recovered(tmp_path) == []
    for damaged in (b"garbage", expected.replace(b"\n3 1", b"").replace(b"\n2\n", b"\n1\n"), None):
        if damaged is None:
            checkpoint.unlink()
        else:
            checkpoint.write_bytes(damaged)
        assert recovered(tmp_path) == [EPOCHS]
        assert checkpoint.read_bytes() == expected


def test_a_file_is_read_once_in_large_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path)
    for _ in range(40):
        append(log, batch(value=b"v" * 30))
    log.abandon()
    size = (tmp_path / "t-0" / f"{0:020d}.log").stat().st_size
    monkeypatch.setattr(recovery, "CHUNK_BYTES", size // 4)
    seen: list[int] = []
    read = OpenFile.read_at

    def watched(file: OpenFile, length: int, position: int) -> bytes:
        seen.append(length)
        return read(file, length, position)

    monkeypatch.setattr(OpenFile, "read_at", watched)
    assert open_log(tmp_path).log_end_offset == 40
    assert len(seen) < 10


def test_what_was_recovered_once_is_believed_until_the_next_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(open_log(tmp_path), batch())
    recovers = Mock(wraps=loading._recover)
    monkeypatch.setattr(loading, "_recover", recovers)
    log = open_log(tmp_path)
    for _ in range(2):
        assert log.load().end_offset == 1
        log.abandon()
    assert recovers.call_count == 1
    open_log(tmp_path).load()
    assert recovers.call_count == 2


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("failure", [None, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)])
def test_what_a_thread_gives_back_is_believed_if_it_is_whole_and_its_disk_well(
    tmp_path: Path, is_whole: bool, failure: KafkaError | None
) -> None:
    log = open_log(tmp_path)
    append(log, batch())
    log.lend()
    log.health.failure = failure
    assert log.take_back(is_whole=is_whole) == []
    is_believed = is_whole and failure is None
    assert (log.is_loaded, log._unread.is_clean) == (is_believed, is_believed)


@pytest.mark.parametrize(
    ("recovery_point", "read"),
    [(-1, 0), (0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 2), (7, 3), (8, 3), (9, 3)],
)
def test_what_was_flushed_is_not_read_but_for_the_segment_in_which_that_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recovery_point: int, read: int
) -> None:
    """Segments begin with 0, 2, 4 and 6."""
    log = open_log(tmp_path, LogConfig(segment_bytes=2 * len(batch())))
    for _ in range(8):
        append(log, batch())
    log.abandon()
    recovers = Mock(wraps=recovery.recover_segment)
    monkeypatch.setattr(loading, "recover_segment", recovers)
    again = open_log(tmp_path, recovery_point=recovery_point)
    assert again.log_end_offset == 8
    assert [call.args[0].base_offset for call in recovers.call_args_list] == [0, 2, 4, 6][read:]
    assert again.recovery_point == min(max(recovery_point, 0), 2 * read)
