"""A reader hands its rows over along with the plan, once."""

from typing import Any, cast

import pytest
from pyspark.sql.datasource import DataSourceStreamReader

from penstock.pipeline.datasource import small_batches
from penstock.pipeline.datasource.small_batches import RowsWithPlan


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
