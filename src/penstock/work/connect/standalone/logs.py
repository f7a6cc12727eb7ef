"""What a standalone worker knows: in its memory until it ends, or in a file for the next one."""

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from penstock.work.connect.runtime.logs import OnRecord
from penstock.work.connect.runtime.records import encode


class MemoryLog:
    """Keeps nothing: what is written is read at once. `on_read` is called after some records, as of a topic."""

    def __init__(self, on_record: OnRecord, on_read: Callable[[], None]) -> None:
        self._on_record = on_record
        self._on_read = on_read
        self._is_due = False

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def put(self, key: bytes, value: bytes | None) -> None:
        self._on_record(key, value, 0)
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._tell)

    async def claim(self) -> None: ...

    async def put_all(self, rows: Mapping[bytes, bytes | None]) -> None:
        for key, value in rows.items():
            await self.put(key, value)

    async def read_to_end(self) -> None:
        self._tell()

    def _tell(self) -> None:
        if self._is_due:
            self._is_due = False
            self._on_read()


class FileLogError(Exception):
    pass


class FileLog:
    """Objects of JSON in a file, by keys that are JSON. A crash leaves the old file or the new one.

    Writers that come while another one writes are written together. A write goes on when nobody waits for it any more:
    the next one begins behind it.
    """

    def __init__(self, path: Path, on_record: OnRecord) -> None:
        self._path = path
        self._on_record = on_record
        self._records: dict[str, object] = {}
        self._writing: asyncio.Task[None] | None = None
        self._changes = 0
        self._written = 0

    async def start(self) -> None:
        """FileLogError."""
        try:
            self._records = dict(json.loads(await asyncio.to_thread(self._path.read_text, encoding="utf-8")))
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise FileLogError(f"{self._path} cannot be read as a file of offsets: {error}") from error
        for key, value in self._records.items():
            self._on_record(key.encode(), encode(value), 0)

    async def stop(self) -> None:
        """A write that is under way ends first."""
        if self._writing is not None:
            await asyncio.wait([self._writing])

    async def put(self, key: bytes, value: bytes | None) -> None:
        """OSError."""
        if value is None:
            self._records.pop(key.decode(), None)
        else:
            self._records[key.decode()] = json.loads(value)
        self._changes += 1
        wanted = self._changes
        while self._written < wanted:
            if self._writing is None or self._writing.done():
                self._writing = asyncio.create_task(self._write_all())
            await asyncio.shield(self._writing)
        self._on_record(key, value, 0)

    async def read_to_end(self) -> None:
        """Each write was read at once."""

    async def _write_all(self) -> None:
        changes, text = self._changes, json.dumps(self._records, indent=1, sort_keys=True)
        await asyncio.to_thread(self._write, text)
        self._written = changes

    def _write(self, text: str) -> None:
        beside = self._path.with_name(f"{self._path.name}.tmp")
        beside.touch(mode=0o600)
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
