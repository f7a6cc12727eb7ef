"""A partition's log in memory whose syncs a test can hold up or let fail."""

import threading

from penstock.protocol.batch import read_header


class MemorySlice:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def advance_log_start(self, offset: int) -> None:
        self.start_offset = offset

    def apply_retention(self, now_ms: int) -> int:
        return 0

    def read(self) -> bytes:
        return self._data


class MemoryLog:
    """As a `PartitionLog`, as far as the metadata log asks; `read` gives at most a batch and a half."""

    def __init__(self, directory: str, batches: list[bytes] | None = None) -> None:
        self.directory = directory
        self.batches = batches if batches is not None else []
        self.syncs = 0
        self.start_offset = 0
        self.write_error: Exception | None = None
        self.sync_error: Exception | None = None
        self.open = threading.Event()
        self.open.set()
        self.started = threading.Event()

    @property
    def log_start_offset(self) -> int:
        return self.start_offset

    @property
    def log_end_offset(self) -> int:
        return read_header(self.batches[-1], 0).last_offset + 1 if self.batches else 0

    def append_as_follower(self, batches: memoryview, *, now_ms: int | None = None) -> int:
        if self.write_error is not None:
            raise self.write_error
        header = read_header(batches, 0)
        assert header.base_offset == self.log_end_offset
        assert header.size_in_bytes == len(batches)
        self.batches.append(bytes(batches))
        return header.last_offset

    def advance_log_start(self, offset: int) -> None:
        self.start_offset = offset

    def apply_retention(self, now_ms: int) -> int:
        return 0

    def read(self, offset: int, max_bytes: int) -> MemorySlice:
        found = next(n for n, batch in enumerate(self.batches) if read_header(batch, 0).last_offset >= offset)
        rest = self.batches[found + 1][:70] if found + 1 < len(self.batches) else b""
        return MemorySlice(self.batches[found] + rest)

    def flush(self) -> None:
        self.started.set()
        assert self.open.wait(timeout=30)
        self.syncs += 1
        if self.sync_error is not None:
            raise self.sync_error
