"""Arrow arrays made of their buffers, and taken from them.

`pyarrow.array` and `pyarrow.scalar`, which functions call for each number in Python that they are given, import pandas
to ask whether they have a series of it before them: 0.2 s of CPU in each worker that Spark begins.
"""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def numbers(values: npt.NDArray[np.integer]) -> pa.Array:
    """As `pyarrow.array`, without a copy: whoever changes `values` later changes the array."""
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)], 0)


def filled(array: pa.Array, instead: int) -> npt.NDArray[np.int64]:
    """Integers, with a number in place of each null; maybe the memory of the array itself."""
    integers = array.cast(pa.int64())
    if not len(integers):
        return np.empty(0, np.int64)
    values = np.frombuffer(integers.buffers()[1], np.int64)[integers.offset : integers.offset + len(integers)]
    return np.where(present(integers), values, instead) if integers.null_count else values


def present(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Where it is not null."""
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    bits = np.unpackbits(np.frombuffer(array.buffers()[0], np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].view(np.bool_)


def contents(values: Sequence[bytes | None]) -> pa.Array:
    """Binary values, some of which may be null; OverflowError beyond 2 GB."""
    offsets = np.fromiter(accumulate((len(value or b"") for value in values), initial=0), np.int32)
    data = b"".join(value for value in values if value)
    valid = np.fromiter((value is not None for value in values), np.bool_, len(values))
    validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), len(values), [validity, pa.py_buffer(offsets), pa.py_buffer(data)])


def repeated_text(text: str, count: int) -> pa.Array:
    """The same text in every row."""
    data = text.encode()
    offsets = (
        np.arange(0, (count + 1) * len(data), len(data), dtype=np.int32) if data else np.zeros(count + 1, np.int32)
    )
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data * count)], 0)
