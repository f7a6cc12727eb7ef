"""Why a log directory cannot be used, in one sentence for the person who starts the node: what is wrong and what
to do.
"""


class LogDirectoryError(Exception):
    """A log directory that cannot be used; `path` is the directory, the text names cause and cure."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(text)
        self.path = path


class UnwritableDirectoryError(LogDirectoryError):
    """The directory cannot be made or written."""

    def __init__(self, path: str, error: OSError) -> None:
        super().__init__(
            path,
            f"cannot write to the log directory {path} ({error.strerror or error}): "
            "give the node's user write access or set log.dirs to another directory",
        )


class LockedDirectoryError(LogDirectoryError):
    """Another process uses the directory."""

    def __init__(self, path: str) -> None:
        super().__init__(
            path, f"another process uses the log directory {path}: stop it or set log.dirs to another directory"
        )


class ForeignDirectoryError(LogDirectoryError):
    """The directory belongs to another node or cluster."""

    def __init__(self, path: str, key: str, found: object, wanted: object) -> None:
        super().__init__(
            path,
            f"the log directory {path} belongs to {key} {found}, this node has {key} {wanted}: "
            f"correct {key} or set log.dirs to another directory",
        )


class BadMetaPropertiesError(LogDirectoryError):
    """`meta.properties` cannot be understood."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(
            path,
            f"{path}/meta.properties {problem}: restore it from a backup, "
            "or empty the directory to begin anew without its data",
        )


class DamagedDirectoryError(LogDirectoryError):
    """A file of the directory cannot be used."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(
            path,
            f"the log directory {path} is damaged ({problem}): "
            "restore it from a backup or set log.dirs to another directory",
        )


class MisplacedMetadataError(LogDirectoryError):
    """The metadata log lies in another directory than the one for it."""

    def __init__(self, path: str, metadata_path: str) -> None:
        super().__init__(
            path,
            f"the log directory {path} holds the metadata log, which belongs into {metadata_path}: "
            f"move {path}/__cluster_metadata-0 there or set metadata.log.dir to {path}",
        )


class UnformattedMetadataError(LogDirectoryError):
    """A directory that is not formatted holds a metadata log."""

    def __init__(self, path: str) -> None:
        super().__init__(
            path,
            f"{path}/__cluster_metadata-0 holds a metadata log, but {path} is not formatted: "
            "restore its meta.properties from a backup, or move that log away to begin anew without its data",
        )
