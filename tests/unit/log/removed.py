"""What threads do in a node: files that were renamed away are removed."""

from penstock.log.directories.directory import LogDirectories
from penstock.log.removals import Removals


def remove_due(of: LogDirectories | Removals, now_ms: int) -> int:
    """All that is due; how many files and directories that was."""
    if isinstance(of, Removals):
        due = [of.take_due(now_ms, 1_000)]
    else:
        due = list(of.take_removals(now_ms, 1_000).values())
    return sum(of.remove(paths, 1_000) for paths in due)
