"""Arrays made of buffers are those that Arrow makes, whole and in slices that begin within a byte of the bitmap."""

import numpy as np
import pyarrow as pa
import pytest

from penstock.pipeline.arrow.plain_arrays import contents, filled, numbers, present, repeated_text

VALUES = [None, 1, 2, None, 4, 5, 6, 7, None, 9, 10, None]
SLICES = [slice(0, 12), slice(3, 12), slice(5, 8), slice(9, 11), slice(4, 4)]


@pytest.mark.parametrize("rows", SLICES, ids=str)
def test_nulls_are_filled_and_found_in_a_slice(rows: slice) -> None:
    array = pa.array(VALUES, pa.int32())[rows.start : rows.stop]
    assert filled(array, -1).tolist() == [-1 if value is None else value for value in VALUES[rows]]
    assert present(array).tolist() == [value is not None for value in VALUES[rows]]


@pytest.mark.parametrize("values", [[], [None], [b"", b"a", None, b"bcd"], [None] * 9, [b"x"] * 9], ids=len)
def test_contents_are_what_arrow_makes_of_them(values: list[bytes | None]) -> None:
    array = contents(values)
    array.validate(full=True)
    assert array.equals(pa.array(values, pa.binary()))


@pytest.mark.parametrize(
    "values", [np.arange(5, dtype=np.int64), np.arange(9, dtype=np.int32)[::2], np.empty(0, np.int32)], ids=len
)
def test_numbers_are_what_arrow_makes_of_them(values: np.typing.NDArray[np.integer]) -> None:
    array = numbers(values)
    array.validate(full=True)
    assert array.equals(pa.array(values))


@pytest.mark.parametrize(("text", "count"), [("ab", 3), ("", 3), ("ab", 0)])
def test_a_text_is_repeated(text: str, count: int) -> None:
    array = repeated_text(text, count)
    array.validate(full=True)
    assert array.to_pylist() == [text] * count
