"""How far sources have been read, in a file: what a standalone worker keeps between two runs."""

import asyncio
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.work.connect.api import Position


class OffsetFileError(Exception):
    """The file cannot be read."""


class OffsetFile:
    """The offsets of all connectors of one worker. A crash leaves the file as it was, or as it is to be."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offsets: dict[str, Any] = {}
        self._writing = threading.Lock()
        try:
            self._offsets = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            raise OffsetFileError(f"{path} cannot be read as a file of offsets: {error}") from error

    def get(self, connector: str, partition: Position) -> Position | None:
        """How far that partition was read."""
        found: Position | None = self._offsets.get(_key(connector, partition))
        return found

    async def ready(self) -> None:
        """See OffsetStore: nobody else writes to the file."""

    async def put(self, connector: str, offsets: Mapping[str, tuple[Position, Position]]) -> None:
        """Store these, and bring them to the disk."""
        await asyncio.to_thread(self._put, connector, offsets)

    def _put(self, connector: str, offsets: Mapping[str, tuple[Position, Position]]) -> None:
        with self._writing:
            for partition, offset in offsets.values():
                self._offsets[_key(connector, partition)] = dict(offset)
            beside = self._path.with_name(f"{self._path.name}.tmp")
            with beside.open("w", encoding="utf-8") as file:
                json.dump(self._offsets, file, indent=1, sort_keys=True)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)


def _key(connector: str, partition: Position) -> str:
    return json.dumps([connector, dict(partition)], sort_keys=True)
