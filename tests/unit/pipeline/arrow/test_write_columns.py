from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from penstock.pipeline.arrow.write_columns import partition_numbers, write_columns
from penstock.pipeline.errors import PipelineError

NOW_MS = 7
TIME = pa.timestamp("us", tz="UTC")


def rows(**columns: pa.Array) -> pa.RecordBatch:
    count = len(next(iter(columns.values())))
    return pa.RecordBatch.from_pydict({"value": pa.array(["v"] * count)} | columns)


def test_a_timestamp_is_written_in_milliseconds_and_without_one_it_is_now() -> None:
    times = pa.array([datetime(2013, 1, 1, 10, 0, 0, 5999, UTC), None], TIME)
    assert write_columns(rows(timestamp=times), NOW_MS).timestamps_ms.tolist() == [1357034400005, NOW_MS]
    assert write_columns(rows(key=pa.array(["a"])), NOW_MS).timestamps_ms.tolist() == [NOW_MS]
    assert write_columns(rows(timestamp=pa.nulls(2)), NOW_MS).timestamps_ms.tolist() == [NOW_MS, NOW_MS]


def test_a_partition_may_be_left_to_the_key() -> None:
    assert partition_numbers(rows(partition=pa.array([3, None, 0], pa.int32()))).tolist() == [3, -1, 0]
    assert np.all(partition_numbers(rows(partition=pa.nulls(2))) == -1)


@pytest.mark.parametrize("number", [-1, -3])
def test_what_is_negative_is_refused(number: int) -> None:
    with pytest.raises(PipelineError, match=f"Column partition is {number} in some row"):
        partition_numbers(rows(partition=pa.array([5, number])))
    with pytest.raises(PipelineError, match=f"Column timestamp is {number} in some row"):
        write_columns(rows(timestamp=pa.array([5, number]).cast(TIME)), NOW_MS)
