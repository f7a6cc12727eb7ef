"""What a process that ended in the middle leaves in a log's directory: deletions, replacements, swaps of segments.

Compaction writes a new segment as `*.cleaned`, and swaps it in by renaming. A `.log.swap` is the promise that the new
segment is whole:

| what is there                   | what becomes of it                                                         |
| ------------------------------- | -------------------------------------------------------------------------- |
| `*.cleaned`, `*.deleted`, `.tmp`| it is removed, but segments later: a large file takes long                 |
| `.log.swap`                     | segments that it reaches into go, and it gets its name, with its indexes   |
| the `.txnindex` of a swap       | it was there before, for old and new segments alike                        |
| an index of a swap without it   | it is removed: either nothing has changed yet, or the index is made anew   |
"""

from penstock.log.disk import Disk
from penstock.log.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    INDEX_SUFFIXES,
    LEFTOVER_SUFFIXES,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_of,
)
from penstock.log.removals import Removals
from penstock.log.scan import batch_spans


def names_of_log(disk: Disk, directory: str, removals: Removals) -> list[str]:
    """Swaps are finished and leftovers removed first. Raises OSError, KafkaError(CORRUPT_MESSAGE)."""
    all_names = disk.names(directory)
    if any(name.endswith(SWAP_SUFFIX) for name in all_names):
        _finish_swaps(disk, directory, all_names, removals)
        all_names = disk.names(directory)
    names = []
    segments = {name.removesuffix(LOG_SUFFIX) for name in all_names if name.endswith(LOG_SUFFIX)}
    for name in all_names:
        stem, dot, suffix = name.partition(".")
        is_orphan = dot + suffix in INDEX_SUFFIXES and stem not in segments
        if name.endswith(DELETED_SUFFIX):
            removals.schedule(f"{directory}/{name}", 0)
        elif name.endswith(LOG_SUFFIX + CLEANED_SUFFIX):
            removals.retire(f"{directory}/{name}", 0)
        elif is_orphan or name.endswith((*LEFTOVER_SUFFIXES, SWAP_SUFFIX)):
            disk.remove(f"{directory}/{name}")
        else:
            names.append(name)
    return names


def _finish_swaps(disk: Disk, directory: str, names: list[str], removals: Removals) -> None:
    """It can be interrupted and repeated; nothing is synced before all names are right."""
    for name in names:
        first_offset = offset_of(name)
        if first_offset is None or not name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            continue
        end_offset = _end_of(disk, f"{directory}/{name}", first_offset)
        for other in names:
            offset = offset_of(other)
            is_old = not other.endswith((SWAP_SUFFIX, DELETED_SUFFIX))
            if offset is None or not is_old or not first_offset <= offset < end_offset:
                continue
            if offset > first_offset or not other.endswith((SNAPSHOT_SUFFIX, LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX)):
                removals.put_away(f"{directory}/{other}")
        stem = f"{directory}/{name.partition('.')[0]}"
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            if f"{name.partition('.')[0]}{suffix}{SWAP_SUFFIX}" in names:
                disk.rename(stem + suffix + SWAP_SUFFIX, stem + suffix)
        removals.put_away(stem + LOG_SUFFIX)
        disk.rename(stem + LOG_SUFFIX + SWAP_SUFFIX, stem + LOG_SUFFIX)
    disk.sync_directory(directory)


def _end_of(disk: Disk, path: str, first_offset: int) -> int:
    """Behind the last offset of a segment file; behind its first one if it is empty."""
    file = disk.open_for_reading(path)
    return max((span[3] for span in batch_spans(file, 0, file.size())), default=first_offset) + 1
