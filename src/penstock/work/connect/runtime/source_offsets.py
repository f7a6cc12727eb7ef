"""How far sources have been read: the next worker of a task goes on where the last one has ended."""

import asyncio
import json
from collections.abc import Callable, Sequence

from penstock.work.connect.api import Position
from penstock.work.connect.runtime.logs import OnRecord, WorkerLog
from penstock.work.connect.runtime.records import encode, offset_key, parse_offset_key


class SourceOffsets:
    """Of all connectors. A partition keeps the bytes of its first key, because compaction compares bytes."""

    def __init__(self, new_log: Callable[[OnRecord], WorkerLog]) -> None:
        self.log = new_log(self._read)
        self._offsets: dict[str, dict[str, tuple[bytes, Position, Position]]] = {}

    def get(self, connector: str, partition: Position) -> Position | None:
        found = self._offsets.get(connector, {}).get(_name(partition))
        return found[2] if found else None

    def all_of(self, connector: str) -> list[tuple[Position, Position]]:
        return [(partition, offset) for _, partition, offset in self._offsets.get(connector, {}).values()]

    async def write(self, connector: str, offsets: Sequence[tuple[Position, Position | None]]) -> None:
        """None forgets a partition."""
        known = self._offsets.get(connector, {})
        await asyncio.gather(
            *(
                self.log.put(
                    known[_name(partition)][0] if _name(partition) in known else offset_key(connector, partition),
                    None if offset is None else encode(dict(offset)),
                )
                for partition, offset in offsets
            )
        )

    def _read(self, key: bytes, value: bytes | None, _: int) -> None:
        parsed = parse_offset_key(key)
        if parsed is None:
            return
        connector, partition = parsed
        offset = json.loads(value) if value is not None else None
        known = self._offsets.setdefault(connector, {})
        if isinstance(offset, dict):
            known[_name(partition)] = (key, partition, offset)
        else:
            known.pop(_name(partition), None)


def _name(partition: Position) -> str:
    return json.dumps(dict(partition), sort_keys=True)
