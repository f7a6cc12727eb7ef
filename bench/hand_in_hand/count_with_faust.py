"""`python count_with_faust.py ADDRESS FOLDER TOTAL COUNT REPORT`: counts words in a table of faust, kept in memory.

Run by an environment that has faust. It ends when the table has `TOTAL` words, and writes what it has into the report.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import faust

AMISS = 1
"""Words that its stream may leave out."""
SETTLED_S = 5.0
"""In which faust commits what it has counted, and looks for more."""


def main() -> None:
    address, folder, total, _, report = sys.argv[1:]
    app = faust.App(
        "counts",
        broker=f"kafka://{address}",
        store="memory://",
        datadir=folder,
        topic_partitions=1,
        topic_replication_factor=1,
        topic_disable_leader=True,
        web_enabled=False,
    )
    words = app.topic("words", key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")
    totals = app.Table("totals", default=int, partitions=1)
    seen = []

    @app.agent(words)  # type: ignore[untyped-decorator, unused-ignore]
    async def count(stream: Any) -> None:
        async for key, _ in stream.items():  # noqa: PERF102 - faust's streams have no keys()
            totals[key.decode()] += 1
            seen.append(key)

    @app.task  # type: ignore[untyped-decorator, unused-ignore]
    async def watch() -> None:
        while sum(totals.values()) < int(total) - AMISS:
            await asyncio.sleep(0.3)
        met = -1
        while met != (met := len(seen)):
            await asyncio.sleep(SETTLED_S)
        Path(report).write_text(json.dumps({"seen": [*map(bytes.decode, seen)], "totals": dict(totals.items())}))
        os._exit(0)

    app.finalize()
    del sys.argv[1:]
    faust.Worker(app, loglevel="INFO").execute_from_commandline()


if __name__ == "__main__":
    main()
