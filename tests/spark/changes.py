"""A table of a database that lives for a while, as Debezium's events, and what pandas makes of these."""

import json
import random
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from penstock.protocol.records import Record

COLUMNS = "id BIGINT, name STRING, amount DOUBLE"
Change = Mapping[str, Any]


def history(seed: int, rows: int, length: int) -> list[Change]:
    """Changes in their order: `lsn`, `op`, and the row after it, or before if it is deleted."""
    chance, alive, changes = random.Random(seed), dict[int, dict[str, Any]](), list[Change]()
    for number in range(length):
        key = chance.randrange(rows)
        lsn = 1 + 7 * number  # 1, 8, 15: as texts without zeros before them they would not be in order
        if key in alive and chance.random() < 0.3:
            changes.append({"lsn": lsn, "op": "d", "row": alive.pop(key)})
            continue
        op = "u" if key in alive else "c"
        alive[key] = {"id": key, "name": f"n{number}", "amount": float(number)}
        changes.append({"lsn": lsn, "op": op, "row": alive[key]})
    return changes


def as_records(changes: Iterable[Change]) -> list[Record]:
    """As Debezium writes those of PostgreSQL: one with its schema, one without; what deletes says the key at most."""
    records = []
    for number, change in enumerate(changes):
        row, lsn, op = change["row"], change["lsn"], change["op"]
        source = {"connector": "postgresql", "lsn": lsn, "ts_ms": 1_700_000_000_000, "snapshot": "false"}
        before = (None, {"id": row["id"], "name": None, "amount": None})[number // 2 % 2] if op == "d" else None
        envelope = {"before": before, "after": None if op == "d" else row, "op": op, "source": source, "ts_ms": 1}
        key: Any = {"id": row["id"]}
        if number % 2:
            key, envelope = {"schema": {}, "payload": key}, {"schema": {"type": "struct"}, "payload": envelope}
        records.append(Record(0, 0, json.dumps(key).encode(), json.dumps(envelope).encode()))
        if op == "d":
            records.append(Record(0, 0, json.dumps(key).encode(), None))
    return records


def shuffled_and_doubled(changes: list[Change], seed: int) -> list[Change]:
    """Each once at least, in any order."""
    chance = random.Random(seed)
    more = [*changes, *chance.sample(changes, len(changes) // 3)]
    chance.shuffle(more)
    return more


def last_rows(changes: Iterable[Change]) -> list[tuple[int, str, float]]:
    """What is in the table in the end, by pandas."""
    frame = pd.DataFrame([{"lsn": one["lsn"], "op": one["op"], **one["row"]} for one in changes])
    last = frame.sort_values("lsn").drop_duplicates("id", keep="last")
    kept = last[last["op"] != "d"].sort_values("id")
    return list(kept[["id", "name", "amount"]].itertuples(index=False, name=None))


def versions_of(changes: Iterable[Change]) -> list[tuple[Any, ...]]:
    """Key, name, begin, end (empty for the last) and whether it is deleted, of each version, by pandas."""
    frame = pd.DataFrame([{"start": f"{one['lsn']:020}", "gone": one["op"] == "d", **one["row"]} for one in changes])
    frame = frame.sort_values(["id", "start"])
    frame["end"] = frame.groupby("id")["start"].shift(-1)
    kept = frame[["id", "name", "start", "end", "gone"]].astype(object)
    return sorted(kept.where(kept.notna(), "").itertuples(index=False, name=None))
