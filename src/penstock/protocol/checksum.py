"""CRC-32C, from the extension module of the package `crc32c` alone.

The package itself imports importlib.metadata, email and argparse, to tell its version and to be a command: 5 % of a
node's start. Where the extension is not in its place, the package is imported all the same.
"""

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Final, Protocol

from penstock.protocol.varint import Buffer

PACKAGE: Final = "crc32c"
EXTENSION: Final = "_crc32c"


class Checksum(Protocol):
    """`before` is the checksum of the data in front."""

    def __call__(self, data: Buffer, before: int = 0, /) -> int: ...


def load(extension: str = EXTENSION) -> Checksum:
    package = find_spec(PACKAGE)
    spec = None if package is None else PathFinder.find_spec(extension, package.submodule_search_locations)
    module: ModuleType
    if spec is None or spec.loader is None:
        import crc32c as module
    else:
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    function: Checksum = module.crc32c
    return function


crc32c: Final = load()
