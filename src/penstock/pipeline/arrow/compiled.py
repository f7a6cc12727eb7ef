"""The bridge to numba: how our kernels are compiled, and the one thing numba lacks, a copy by LLVM's memcpy.

Kernels get read-only `uint8` arrays for what they read, so that each kernel is compiled for one set of types only.
Numba checks no bounds: callers of `copy_bytes` check both ranges before.
"""

import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from penstock.pipeline.arrow.record_spans import Integers
from penstock.pipeline.errors import PipelineError

try:
    import numba
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.extending import intrinsic
except ImportError as error:
    raise PipelineError(
        f"Records are read and written with numba, which {sys.executable} cannot import ({error}); install it where "
        "the driver and the executors run: pip install 'penstock[connector]'"
    ) from error

__all__ = ["Bytes", "Integer", "Integers", "Kernel", "Offsets", "compiled", "copy_bytes", "read_only_bytes"]

Bytes = npt.NDArray[np.uint8]
Integer = int | np.int64
Offsets = npt.NDArray[np.int32]
"""Of a column of bytes, texts or lists."""
Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(function: Kernel) -> Kernel:
    """At first use; the machine code is kept on disk, next to the source or in the user's cache directory."""
    try:
        return cast("Kernel", numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # no directory that could hold the cache: compile in each process
        return cast("Kernel", numba.njit(nogil=True)(function))


def _copy_bytes(typing_context: Any, target: Any, target_at: Any, source: Any, source_at: Any, length: Any) -> Any:
    signature = types.void(target, target_at, source, source_at, length)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target_array, target_position, source_array, source_position, byte_count = arguments
        to = context.make_array(signature.args[0])(context, builder, target_array).data
        origin = context.make_array(signature.args[2])(context, builder, source_array).data
        assert isinstance(byte_count.type, ir.IntType)
        cgutils.raw_memcpy(  # type: ignore[no-untyped-call]
            builder, builder.gep(to, [target_position]), builder.gep(origin, [source_position]), byte_count, 1
        )
        return context.get_dummy_value()

    return signature, generate


copy_bytes = cast("Callable[[Bytes, Integer, Bytes, Integer, Integer], None]", intrinsic(_copy_bytes))
"""copy_bytes(target, target_at, source, source_at, length), only inside a kernel."""


def read_only_bytes(buffer: object) -> Bytes:
    """A view of any buffer in the one form that the kernels are compiled for; an empty buffer becomes one zero byte."""
    view = memoryview(cast("bytes", buffer))
    array = np.frombuffer(view, np.uint8) if view.nbytes else np.zeros(1, np.uint8)
    array.flags.writeable = False
    return array
