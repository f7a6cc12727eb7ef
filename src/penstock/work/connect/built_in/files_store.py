"""Files on a disk or in an object store, through fsspec: each is there as a whole or not at all."""

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import uuid4

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem


class Store:
    """The files below a URL, or below a directory. All methods may raise OSError."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        """ValueError or ImportError if there is no such kind of store."""
        self._fs: Any
        self._fs, root = url_to_fs(url, **options)
        self._root = root.rstrip("/")
        self._is_local = isinstance(self._fs, LocalFileSystem)
        self._life = uuid4().hex

    def write(self, folder: str, name: str, data: bytes) -> None:
        """Replace a file; until it is whole it has a name that readers pass over."""
        directory = f"{self._root}/{folder}"
        self._fs.makedirs(directory, exist_ok=True)
        beside, path = f"{directory}/.{name}.{self._life}", f"{directory}/{name}"
        with self._fs.open(beside, "wb") as file:
            file.write(data)
            if self._is_local:
                file.flush()
                os.fsync(file.fileno())
        try:
            self._fs.mv(beside, path)
        except FileExistsError:  # some stores do not replace
            self._fs.rm_file(path)
            self._fs.mv(beside, path)
        if self._is_local:
            self._sync_names(folder)

    def clean(self, folder: str, prefix: str) -> None:
        """Remove what earlier tasks have not finished writing: then they cannot finish it any more either."""
        directory = f"{self._root}/{folder}"
        self._fs.invalidate_cache(directory)
        try:
            paths = self._fs.ls(directory, detail=False)
        except FileNotFoundError:
            return
        for path in paths:
            if path.rpartition("/")[2].startswith(f".{prefix}"):
                with suppress(FileNotFoundError):
                    self._fs.rm_file(path)

    def _sync_names(self, folder: str) -> None:
        """A name is durable only when its directory was synced, and the directory's own when that above it was."""
        parts = folder.split("/")
        for depth in range(len(parts), -1, -1):
            descriptor = os.open("/".join([self._root, *parts[:depth]]) or "/", os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
