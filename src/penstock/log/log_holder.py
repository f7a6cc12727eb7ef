"""What is known of a log before its directory is read in, what was read in, and who has that: the event loop, or for a
while a thread.

| state    | what there is                                          | leads to                                         |
| -------- | ------------------------------------------------------ | ------------------------------------------------ |
| not read | offsets of a checkpoint, or of when it was read before | read: something asks for its content             |
| read     | the content, as the files have it                      | not read: `abandon`; lent: `lend`                |
| lent     | nothing: a thread changes the files                    | read or not read: `take_back`, when that is done |
"""

from collections.abc import Callable, Sequence
from uuid import UUID

from penstock.log.checkpoint import read_topic_id
from penstock.log.config import LogConfig
from penstock.log.health import Health
from penstock.log.leader_epochs import UNDEFINED_EPOCH, LeaderEpochs
from penstock.log.loading import Unread, load_log
from penstock.log.log_content import LogContent
from penstock.log.names import LOG_SUFFIX
from penstock.log.open_files import OpenFiles
from penstock.log.producer_state import Producers
from penstock.log.removals import Removals
from penstock.log.segments import Segments
from penstock.protocol.errors import ErrorCode, KafkaError


class LentError(KafkaError):
    """A thread has the log just now. Clients ask again soon, as of a leader that they look for."""

    def __init__(self, name: str) -> None:
        super().__init__(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{name} waits for its disk, try again")


class _Lent:
    __slots__ = ("content", "size_bytes", "waiting")

    def __init__(self, content: LogContent) -> None:
        self.content = content
        self.size_bytes = content.segments.size_bytes
        self.waiting: list[Callable[[], object]] = []


class LogHolder:
    """The part of a `PartitionLog` that reads its directory, and raises what that says."""

    __slots__ = (
        "_content",
        "_lent",
        "_open_files",
        "_removals",
        "_unread",
        "changes",
        "config",
        "directory",
        "health",
        "is_deleted",
        "partition",
        "topic",
    )

    def __init__(
        self,
        open_files: OpenFiles,
        removals: Removals,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        health: Health | None,
        unread: Unread,
    ) -> None:
        self._open_files = open_files
        self._removals = removals
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.config = config
        self.health = health or Health(self.parent)
        self.is_deleted = False
        self._content: LogContent | None = None
        self._lent: _Lent | None = None
        self._unread = unread
        self.changes = 0  # but for appends: what was found before one may be something else behind it

    def __repr__(self) -> str:
        return f"PartitionLog({self.topic}-{self.partition})"

    @property
    def is_loaded(self) -> bool:
        return self._content is not None

    @property
    def has_known_ends(self) -> bool:
        """The log start and end are known without reading the directory."""
        return self._content is not None or self._unread.start_offset == self._unread.end_offset >= 0

    @property
    def is_untouched(self) -> bool:
        """It is known without reading the directory that there has been no record."""
        return self._content is None and self._unread.end_offset == self._unread.start_offset == 0

    @property
    def is_trusted(self) -> bool:
        return self._unread.is_clean

    @property
    def log_start_offset(self) -> int:
        if self._content is None and self.has_known_ends:
            return self._unread.end_offset  # there is no record, and the first segment begins here
        return (self._content or self.load()).start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        content = self._content
        if content is None and self._unread.end_offset >= 0:
            return self._unread.end_offset
        return (content or self.load()).end_offset

    @property
    def recovery_point(self) -> int:
        """All before this offset outlives a power cut; -1 if that is not known."""
        return (self._content or self._unread).recovery_point

    @property
    def kept_offset(self) -> int:
        """All before it is kept as well as `flush.messages` wants it: the log's end, or where a flush is due by that,
        the end of what earlier ones have brought to the disk.
        """
        known: LogContent | Unread | None = self._content
        if known is None:
            known = self._unread if self._unread.end_offset >= 0 else self.load()
        is_due = known.end_offset - known.recovery_point >= self.config.flush_messages
        return known.recovery_point if is_due else known.end_offset

    @property
    def size_bytes(self) -> int:
        """Of all segments, without indexes; of a log that is not loaded, from the file system."""
        if self._content is None:
            if self._lent is not None:
                return self._lent.size_bytes
            with self.health.reporting(self._name):
                return self._open_files.disk.bytes_of_files(self.directory, LOG_SUFFIX)
        return self._content.segments.size_bytes

    @property
    def parent(self) -> str:
        return self.directory.rpartition("/")[0]

    @property
    def topic_id(self) -> UUID | None:
        """From `partition.metadata`; None if that is missing or damaged."""
        return read_topic_id(self._open_files.disk, self.directory)

    @property
    def start_to_checkpoint(self) -> int | None:
        """None if the segments' names tell it."""
        content = self._content  # a thread may ask, also while the log begins anew and has no segment
        if content is not None and any(content.start_offset <= first.base_offset for first in content.segments[:1]):
            return None
        return (content or self._unread).start_offset or None

    @property
    def leader_epochs(self) -> LeaderEpochs:
        return (self._content or self.load()).epochs

    @property
    def latest_epoch(self) -> int:
        """Of the last record; -1 if there is none. An untouched log is not read in for that: a node may follow
        thousands.
        """
        content = self._content
        if content is None and self.is_untouched:
            return UNDEFINED_EPOCH
        return (content or self.load()).epochs.latest

    @property
    def producers(self) -> Producers:
        return (self._content or self.load()).producers

    def last_stable_offset(self, high_watermark: int) -> int:
        """As `Producers.last_stable_offset`, and not before the log's start: an open transaction may begin there."""
        if self._content is None and self.has_known_ends:
            return high_watermark  # there is no record
        stable = self.producers.last_stable_offset(high_watermark)
        return stable if stable == high_watermark else max(stable, min(self.log_start_offset, high_watermark))

    @property
    def segments(self) -> Segments:
        return (self._content or self.load()).segments

    def load(self) -> LogContent:
        if self._content is not None:
            return self._content
        if self.is_deleted:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic}-{self.partition} was deleted")
        self.check_not_lent()
        with self.health.reporting(self._name):
            self._content = load_log(self._open_files, self._removals, self.directory, self.config, self._unread)
        self._unread.is_clean = True
        return self._content

    @property
    def _name(self) -> str:
        return f"{self.topic}-{self.partition} in {self.directory}"

    # while a thread has it

    @property
    def is_lent(self) -> bool:
        return self._lent is not None

    def check_not_lent(self) -> None:
        if self._lent is not None:
            raise LentError(self._name)

    def lend(self) -> LogContent:
        """To a thread that changes the files. Until `take_back` whatever asks for the content, or for where the log
        ends, gets `LentError`, and the log may not be deleted, set aside or moved.
        """
        content = self.load()
        self.changes += 1
        self._unread.remember(content)
        self._unread.distrust()
        self._content, self._lent = None, _Lent(content)
        return content

    def take_back(self, *, is_whole: bool) -> Sequence[Callable[[], object]]:
        """The thread has done its work. If it could not, only the files tell what there is. Returns who waits."""
        lent, self._lent = self._lent, None
        assert lent is not None
        if is_whole and self.health.failure is None:
            self._content = lent.content
            self._unread.is_clean = True
        else:
            self._unread.remember(lent.content)
            self._unread.distrust()
            lent.content.segments.forget_files()
        return lent.waiting

    def when_back(self, go_on: Callable[[], object]) -> bool:
        """Whether it is lent: then this is called when the thread is done."""
        if self._lent is not None:
            self._lent.waiting.append(go_on)
        return self._lent is not None

    def abandon(self) -> None:
        """Save nothing, as a crash would."""
        if (content := self._content) is not None:
            self._unread.remember(content)  # first: a thread may ask for its recovery point
            self._content = None
            content.segments.forget_files()

    def take_over(self, moved: "LogHolder", directory: str) -> None:
        """`moved` is a copy of this log that was closed and now lies in `directory`."""
        self.abandon()
        self.directory = directory
        self.health = moved.health
        self._unread.take_over(moved._unread)

    def mark_deleted(self, directory: str) -> None:
        """The directory was renamed: later calls get UNKNOWN_TOPIC_OR_PARTITION."""
        self.abandon()
        self.is_deleted = True
        self._unread.distrust()
        self.directory = directory
