"""Why a log directory cannot be used, in one sentence for the person who starts the node: what is wrong and what
to do.
"""

import errno
from collections.abc import Sequence

from penstock.log.names import partition_directory
from penstock.protocol.internal_topics import CLUSTER_METADATA

METADATA_LOG = partition_directory(CLUSTER_METADATA, 0)


class LogDirectoryError(Exception):
    """`path` is the directory, the text names cause and cure."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(text)
        self.path = path


_CURES = {
    errno.ENOSPC: "free some space on its disk; nothing in it is damaged",
    errno.EDQUOT: "raise the disk quota of the node's user or free some space; nothing in it is damaged",
    errno.EACCES: "give the node's user write access or set log.dirs to another directory",
    errno.EPERM: "give the node's user write access or set log.dirs to another directory",
    errno.EROFS: "its file system is mounted read-only, often after an error: check it and mount it for writing",
    errno.EIO: "its disk fails: replace it",
    errno.EMFILE: "raise the limit of open files of the node's user (ulimit -n)",
    errno.ENFILE: "raise the system's limit of open files (fs.file-max)",
    errno.ENOTDIR: "it, or what it lies in, is a file: set log.dirs to another directory",
}
_CURE = "mend what the message names or set log.dirs to another directory"


class UnusableDirectoryError(LogDirectoryError):
    def __init__(self, path: str, error: OSError) -> None:
        cure = _CURES.get(error.errno or 0, _CURE)
        super().__init__(path, f"cannot use the log directory {path} ({error.strerror or error}): {cure}")


class OfflineDirectoryError(LogDirectoryError):
    """The node cannot do without it."""

    def __init__(self, path: str, failure: str, why_needed: str) -> None:
        super().__init__(path, f"{failure}; {why_needed}: mend or replace the disk, then start the node again")


class LockedDirectoryError(LogDirectoryError):
    def __init__(self, path: str) -> None:
        super().__init__(
            path, f"another process uses the log directory {path}: stop it or set log.dirs to another directory"
        )


class ForeignDirectoryError(LogDirectoryError):
    def __init__(self, path: str, key: str, found: object, wanted: object) -> None:
        super().__init__(
            path,
            f"the log directory {path} belongs to {key} {found}, this node has {key} {wanted}: "
            f"correct {key} or set log.dirs to another directory",
        )


class CopiedDirectoryError(LogDirectoryError):
    """Two directories have the same id, so it is unclear in which of them a replica lies."""

    def __init__(self, path: str, other: str, directory_id: str) -> None:
        super().__init__(
            path,
            f"the log directories {other} and {path} both have directory.id {directory_id}: one is a copy of the other;"
            " take it out of log.dirs, or remove its meta.properties if it has replicas of its own",
        )


class BadMetaPropertiesError(LogDirectoryError):
    def __init__(self, path: str, problem: str) -> None:
        super().__init__(
            path,
            f"{path}/meta.properties {problem}: restore it from a backup, "
            "or empty the directory to begin anew without its data",
        )


class DamagedDirectoryError(LogDirectoryError):
    def __init__(self, path: str, problem: str) -> None:
        super().__init__(
            path,
            f"the log directory {path} is damaged ({problem}): "
            "restore it from a backup or set log.dirs to another directory",
        )


class MisplacedMetadataError(LogDirectoryError):
    def __init__(self, path: str, metadata_path: str) -> None:
        super().__init__(
            path,
            f"the log directory {path} holds the metadata log, which belongs into {metadata_path}: "
            f"move {path}/{METADATA_LOG} there or set metadata.log.dir to {path}",
        )


class NotMetadataLogError(LogDirectoryError):
    """The directory in the place of the metadata log has a topic's id."""

    def __init__(self, path: str, renamed: Sequence[str]) -> None:
        super().__init__(
            path,
            f"{path} is not the metadata log, but a topic's: an earlier version let clients make a topic of that name."
            f" Move it away, and {_put_back(renamed)}",
        )


class RenamedMetadataError(LogDirectoryError):
    """The metadata log was renamed, and nothing lies in its place."""

    def __init__(self, path: str, renamed: Sequence[str]) -> None:
        super().__init__(
            path,
            f"the log directory {path} has no {METADATA_LOG}, but a metadata log that an earlier version renamed:"
            f" {_put_back(renamed)}",
        )


def _put_back(renamed: Sequence[str]) -> str:
    if not renamed:
        return f"restore {METADATA_LOG} from a backup"
    return f"rename {renamed[-1]} to {METADATA_LOG}, or move it away to begin anew without the cluster's metadata"


class UnformattedMetadataError(LogDirectoryError):
    def __init__(self, path: str) -> None:
        super().__init__(
            path,
            f"{path}/{METADATA_LOG} holds a metadata log, but {path} is not formatted: "
            "restore its meta.properties from a backup, or move that log away to begin anew without its data",
        )
