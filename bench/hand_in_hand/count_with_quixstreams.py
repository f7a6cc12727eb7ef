"""`python count_with_quixstreams.py ADDRESS FOLDER TOTAL COUNT REPORT`: counts words in a state of quixstreams.

Run by an environment that has quixstreams. It ends after `COUNT` words; the report has the totals of those that it met.
"""

import json
import sys
from pathlib import Path
from typing import Any

from quixstreams import Application

LIMIT_S = 120.0


def main() -> None:
    address, folder, _, count, report = sys.argv[1:]
    app = Application(
        broker_address=address,
        consumer_group="counts",
        state_dir=folder,
        auto_offset_reset="earliest",
        commit_interval=1.0,
        loglevel="WARNING",
    )
    words = app.topic("words", key_deserializer="str", value_deserializer="bytes")
    totals, seen = {}, []

    def counted(_: bytes, state: Any) -> int:
        total = int(state.get("total", 0)) + 1
        state.set("total", total)
        return total

    def note(total: int, key: str, timestamp: int, headers: Any) -> None:
        totals[key] = total
        seen.append(key)

    app.dataframe(words).apply(counted, stateful=True).update(note, metadata=True)
    app.run(count=int(count), timeout=LIMIT_S)
    Path(report).write_text(json.dumps({"seen": seen, "totals": totals}))


if __name__ == "__main__":
    main()
