"""What is read of a table of Delta Lake: by Arrow, whatever its columns are."""

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from penstock.pipeline.running.delta_tables import _known


def test_rows_of_some_keys_are_found_with_columns_that_have_parts(tmp_path: Path) -> None:
    rows = [
        {"id": key, "region": region, "address": {"street": f"s{key}"}, "tags": ["a", region], "name": None}
        for key in range(3)
        for region in ("north", "south")
    ]
    kinds = {
        "id": pa.int64(),
        "region": pa.string(),
        "address": pa.struct({"street": pa.string()}),
        "tags": pa.list_(pa.string()),
        "name": pa.string(),
    }
    write_deltalake(tmp_path, pa.Table.from_pylist(rows, pa.schema(kinds)))
    keys = pa.table({"id": [2, 0, 9], "region": ["south", "north", "north"]})
    table = DeltaTable(tmp_path)
    found = _known(table, keys, list(kinds)).to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == [rows[0], rows[5]]
    assert _known(table, keys.slice(2), list(kinds)).to_pylist() == []
