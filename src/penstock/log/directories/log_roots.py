"""The log directories of a node: their identity, which of them are online, and whether the node can do with those.

A directory that fails, at the start or later, is offline (see `health`); the others go on. The node cannot do without
the one for its metadata log, and not without any for data.
"""

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random
from uuid import UUID

from penstock.log.directories.errors import (
    BadMetaPropertiesError,
    CopiedDirectoryError,
    ForeignDirectoryError,
    LogDirectoryError,
    OfflineDirectoryError,
    UnusableDirectoryError,
)
from penstock.log.directories.log_directory import UNKNOWN_EPOCH, LogDirectory
from penstock.log.directories.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from penstock.log.disk import Disk
from penstock.protocol.uuids import random_uuid, uuid_to_text

logger = logging.getLogger(__name__)


def spelled(path: str) -> str:
    """As directories are told apart: `/data/` is `/data`."""
    return path.rstrip("/") or "/"


class LogRoots:
    """`cluster_id` None takes the one that the directories hold or, when they are new, draws one. Online directories
    are locked. Raises LogDirectoryError, unless the node can do without that directory.
    """

    def __init__(
        self,
        disk: Disk,
        paths: Sequence[str],
        *,
        node_id: int,
        random: Random,
        metadata_path: str | None = None,
        cluster_id: str | None = None,
    ) -> None:
        self._disk = disk
        self._random = random
        self._node_id = node_id
        self._data_paths = [spelled(path) for path in paths]
        self.metadata_path = self._data_paths[0] if metadata_path is None else spelled(metadata_path)
        self._by_path: dict[str, LogDirectory] = {}
        self._cordoned: list[str] = []
        self._told: set[str] = set()
        self._without_identity: list[LogDirectory] = []
        """Their `meta.properties` are to be written, as they are new or from before KIP-858."""
        try:
            for path in dict.fromkeys([*self._data_paths, self.metadata_path]):
                self._by_path[path] = LogDirectory(disk, path)
            self.cluster_id = self._identify(cluster_id)
            self.check()
        except BaseException:
            self.abandon()
            raise

    def __getitem__(self, path: str) -> LogDirectory:
        return self._by_path[path]

    @property
    def paths(self) -> list[str]:
        return list(self._by_path)

    def around(self, path: str) -> str:
        """The path of the directory in which it lies."""
        return next(root for root in self._by_path if path.startswith(os.path.join(root, "")))

    @property
    def for_data(self) -> list[LogDirectory]:
        """A directory for the metadata log alone is left out."""
        return [self._by_path[path] for path in self._data_paths]

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self._by_path.values() if directory.is_online]

    @property
    def offline(self) -> list[LogDirectory]:
        """They failed since the start, or could not be opened at it."""
        return [directory for directory in self._by_path.values() if not directory.is_online]

    @property
    def online_ids(self) -> list[UUID]:
        return [one.directory_id for one in self.for_data if one.is_online and one.directory_id is not None]

    @property
    def offline_ids(self) -> list[UUID]:
        return [one.directory_id for one in self.for_data if not one.is_online and one.directory_id is not None]

    def cordon(self, paths: Iterable[str]) -> None:
        """These directories and no others, or all for `*`, are to get no new replicas (KIP-1066)."""
        wanted = {spelled(path) for path in paths}
        self._cordoned = [path for path in self._data_paths if path in wanted or "*" in wanted]

    def is_cordoned(self, path: str) -> bool:
        return path in self._cordoned

    @property
    def cordoned_ids(self) -> list[UUID]:
        ids = (self._by_path[path].directory_id for path in self._cordoned)
        return [directory_id for directory_id in ids if directory_id is not None]

    def id_of(self, path: str) -> UUID | None:
        """None for a directory that has only the metadata log."""
        return self._by_path[path].directory_id if path in self._data_paths else None

    @property
    def was_clean(self) -> bool:
        """All online directories were closed cleanly the last time."""
        return all(directory.is_clean for directory in self.online)

    @property
    def clean_broker_epoch(self) -> int:
        """-1 unless the same broker closed all of them cleanly the last time."""
        epochs = {directory.clean_broker_epoch for directory in self.online}
        return epochs.pop() if len(epochs) == 1 else UNKNOWN_EPOCH

    def on_failure(self, listener: Callable[[str], object]) -> None:
        """`listener` gets the path of each directory that fails from now on, perhaps in another thread."""
        for directory in self._by_path.values():
            directory.health.on_failure = partial(listener, directory.path)

    def why_unusable(self) -> LogDirectoryError | None:
        """Why the node cannot go on with the directories that are online; None if it can."""
        metadata = self._by_path[self.metadata_path]
        if not metadata.is_online:
            return _why(metadata, "this node cannot go on without its metadata log")
        if not any(directory.is_online for directory in self.for_data):
            return _why(self.for_data[0], "this node has no other directory for data")
        return None

    def check(self) -> None:
        """At the start: log each directory that cannot be opened, once. Raises LogDirectoryError if it is needed."""
        problem = self.why_unusable()
        if problem is not None:
            raise problem
        for directory in self.offline:
            if directory.path not in self._told:
                logger.error("%s. This node starts without it", directory.problem or directory.health.failure)
                self._told.add(directory.path)

    def _identify(self, cluster_id: str | None) -> str:
        """Compare `meta.properties`, and draw missing ids; returns the cluster's id."""
        by_id: dict[UUID, str] = {}
        for directory in self.online:
            found = self._read_identity(directory)
            if found is not None:
                cluster_id = cluster_id or found.cluster_id
                if found.cluster_id != cluster_id:
                    raise ForeignDirectoryError(directory.path, "cluster.id", found.cluster_id, cluster_id)
                if found.node_id != self._node_id:
                    raise ForeignDirectoryError(directory.path, "node.id", found.node_id, self._node_id)
                directory.directory_id = found.directory_id
            if directory.is_online and directory.directory_id is None:
                self._without_identity.append(directory)
            elif directory.directory_id is not None:
                other = by_id.setdefault(directory.directory_id, directory.path)
                if other != directory.path:
                    raise CopiedDirectoryError(directory.path, other, uuid_to_text(directory.directory_id))
        cluster_id = cluster_id or uuid_to_text(random_uuid(self._random))
        for directory in self._without_identity:
            directory.directory_id = random_uuid(self._random)
        return cluster_id

    def make(self) -> None:
        """Missing directories and identities. Raises LogDirectoryError where the node needs the directory."""
        for directory in self._without_identity:
            directory_id = directory.directory_id
            identity = MetaProperties(cluster_id=self.cluster_id, node_id=self._node_id, directory_id=directory_id)
            try:
                directory.make()
                write_meta_properties(self._disk, directory.path, identity)
            except OSError as error:
                directory.give_up(UnusableDirectoryError(directory.path, error))
        self._without_identity = []
        self.check()

    def _read_identity(self, directory: LogDirectory) -> MetaProperties | None:
        try:
            return read_meta_properties(self._disk, directory.path)
        except OSError as error:
            directory.give_up(UnusableDirectoryError(directory.path, error))
        except BadMetaPropertiesError as error:
            directory.give_up(error)
        return None

    def abandon(self) -> None:
        """Only release the locks, as a crash would."""
        for directory in self._by_path.values():
            directory.abandon()


def _why(directory: LogDirectory, why_needed: str) -> LogDirectoryError:
    return directory.problem or OfflineDirectoryError(directory.path, str(directory.health.failure), why_needed)
