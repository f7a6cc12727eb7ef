"""A reader hands its rows over along with the plan, once."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql.datasource import DataSourceStreamReader

from penstock.pipeline.datasource import small_batches
from penstock.pipeline.datasource.small_batches import RowsWithPlan, SmallBatches


class Reader(RowsWithPlan):
    def __init__(self) -> None: ...

    def read(self, partition: Any) -> Any: ...


class SparksOwn:
    """Stands for the reader of a simple source."""


@pytest.mark.parametrize("own", [SparksOwn, None], ids=["with Spark's way", "without"])
def test_a_reader_is_one_of_sparks_simple_ones_while_it_has_rows(monkeypatch: pytest.MonkeyPatch, own: Any) -> None:
    monkeypatch.setattr(small_batches, "_SimpleStreamReaderWrapper", own)
    reader = Reader()
    assert reader.__class__ is Reader
    assert isinstance(reader, DataSourceStreamReader)
    assert reader.getCache(0, 1) is None
    reader._rows = [cast("Any", "row")]
    assert reader.__class__ is (Reader if own is None else own)
    cache = reader.getCache(0, 1)
    assert cache is not None
    assert list(cache) == ["row"]
    assert reader.getCache(0, 1) is None
    assert reader.__class__ is Reader


SIZES = ("min_partitions", "max_records_per_partition", "max_partitions_per_task")


@pytest.mark.parametrize("size", [*SIZES, None])
def test_tasks_read_where_somebody_has_set_their_size(size: str | None) -> None:
    source = SimpleNamespace(fetch_bytes=1, replace=lambda **_: None, **(dict.fromkeys(SIZES, 0) | {size or "none": 5}))
    assert (SmallBatches(cast("Any", source))._most == 0) is (size is not None)
