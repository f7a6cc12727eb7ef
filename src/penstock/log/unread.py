"""What is known of a log while its directory is not read in: from a checkpoint, or from when it was read in before."""

from penstock.log.log_content import LogContent

UNKNOWN = -1


class Unread:
    """Offsets are -1 if unknown. `is_clean`: the files are as a clean close left them, or changed only as a whole
    since.
    """

    __slots__ = ("end_offset", "is_clean", "recovery_point", "rewritten_below", "start_offset")

    def __init__(self, recovery_point: int, start_offset: int, *, is_clean: bool, is_empty: bool) -> None:
        """`recovery_point` is the end offset of a directory that `is_clean`, and the only one of a log `is_empty`."""
        self.is_clean = is_clean
        self.recovery_point = recovery_point
        self.rewritten_below = recovery_point
        self.start_offset = start_offset
        self.end_offset = recovery_point if is_clean or is_empty else UNKNOWN

    def remember(self, content: LogContent) -> None:
        self.recovery_point = content.recovery_point
        self.rewritten_below = content.rewritten_below
        self.start_offset = content.start_offset
        self.end_offset = content.end_offset

    def take_over(self, other: "Unread") -> None:
        """The copy was closed."""
        self.is_clean = True
        self.recovery_point = other.recovery_point
        self.rewritten_below = other.rewritten_below
        self.start_offset = other.start_offset
        self.end_offset = other.end_offset

    def distrust(self) -> None:
        """Only the files tell the state."""
        self.is_clean = False
        self.end_offset = UNKNOWN
