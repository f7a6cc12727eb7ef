"""At which offset each leader's term began: `leader-epoch-checkpoint`.

Entries grow strictly in epoch and in start offset. The file is derived from the log's batches and is made durable
only when the log is flushed beyond its newest entry; one that is lost or unreadable is rebuilt from the log (see
`loading`).
"""

from bisect import bisect_right

from penstock.log.checkpoint import decode_leader_epochs, encode_leader_epochs
from penstock.log.disk import Disk
from penstock.log.health import may_pass

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class LeaderEpochs:
    __slots__ = ("_disk", "_entries", "_is_durable", "_saved", "latest", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._entries: list[tuple[int, int]] = []
        self._is_durable = True
        self._saved: list[tuple[int, int]] | None = []
        self.latest = UNDEFINED_EPOCH
        self.path = path

    @property
    def entries(self) -> list[tuple[int, int]]:
        """Oldest first."""
        return list(self._entries)

    def load(self) -> bool:
        """False if there is no file. Raises CorruptCheckpointError."""
        content = self._disk.read_file(self.path)
        if content is None:
            return False
        self._saved = None
        self._saved = self._entries = decode_leader_epochs(content, self.path)
        self._remember_latest()
        return True

    def assign(self, epoch: int, start_offset: int, *, save: bool = True) -> None:
        """Contradicting entries are removed. An old epoch changes nothing."""
        if epoch <= self.latest:
            return
        entries = [entry for entry in self._entries if entry[1] < start_offset]
        entries.append((epoch, start_offset))
        self._replace(entries, save=save)

    def epoch_at(self, offset: int) -> int:
        """-1 if no known term holds the offset."""
        number = bisect_right(self._entries, offset, key=lambda entry: entry[1]) - 1
        return self._entries[number][0] if number >= 0 else UNDEFINED_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(the largest known epoch up to `epoch`, where its term ends), as OffsetForLeaderEpoch answers (KIP-101,
        KIP-279); (-1, -1) if the epoch is undefined or later than all known ones.
        """
        if epoch == UNDEFINED_EPOCH or epoch > self.latest:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        number = bisect_right(self._entries, epoch, key=lambda entry: entry[0])
        end_offset = self._entries[number][1]
        return (self._entries[number - 1][0] if number else epoch), end_offset

    def truncate_from_end(self, end_offset: int, *, save: bool = True) -> None:
        """Forget the terms that begin at `end_offset` or behind it."""
        if self._entries and self._entries[-1][1] >= end_offset:
            self._shorten([entry for entry in self._entries if entry[1] < end_offset], save=save)

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget the terms that end before `start_offset`; the one it lies in begins there from now on."""
        number = bisect_right(self._entries, start_offset, key=lambda entry: entry[1]) - 1
        if number < 0 or (self._entries[number][1] == start_offset and number == 0):
            return
        self._shorten([(self._entries[number][0], start_offset), *self._entries[number + 1 :]])

    def clear(self) -> None:
        self.restore([])

    def restore(self, entries: list[tuple[int, int]]) -> None:
        if self._entries != entries:
            self._replace(entries)

    def write(self) -> None:
        """It is needed after changes without `save`."""
        if self._entries != self._saved:
            self._save(self._entries)

    def _save(self, entries: list[tuple[int, int]]) -> None:
        self._disk.replace_file(self.path, encode_leader_epochs(entries), durable=False)
        self._saved = entries
        self._is_durable = False

    def sync(self) -> None:
        """May run in a thread beside the other methods."""
        saved = self._saved
        if self._is_durable:
            return
        if self._disk.exists(self.path):
            self._disk.open(self.path).sync()
            self._disk.sync_directory(self.path.rpartition("/")[0])
        if self._saved is saved:
            self._is_durable = True

    def _shorten(self, entries: list[tuple[int, int]], *, save: bool = True) -> None:
        """Where there is no room for the file it is right nevertheless: a start shortens it again, and the next term is
        not noted without it. Retention and cuts, which make room, go on.
        """
        try:
            self._replace(entries, save=save)
        except OSError as error:
            if not may_pass(error):
                raise
            self._replace(entries, save=False)

    def _replace(self, entries: list[tuple[int, int]], *, save: bool = True) -> None:
        if save:
            self._save(entries)
        self._entries = entries
        self._remember_latest()

    def _remember_latest(self) -> None:
        self.latest = self._entries[-1][0] if self._entries else UNDEFINED_EPOCH
