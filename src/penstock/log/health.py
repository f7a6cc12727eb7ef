"""One rule for failing disks: whether a log directory can be relied on.

| the operating system refuses                        | what follows                                                 |
| --------------------------------------------------- | ------------------------------------------------------------ |
| a sync, for whatever reason (`SyncFailedError`)     | the directory is offline until the process ends              |
| a write for want of room (ENOSPC, EDQUOT, EFBIG)    | it fails, its file is cut back; the next one may succeed,    |
|                                                     | and the directory `is_full` until it has been seen to have   |
|                                                     | room again                                                   |
| to open one more file (EMFILE, ENFILE)              | what needed the file fails; the next one may succeed         |
| any other write, read, rename, removal (EIO, EROFS) | the directory is offline until the process ends              |

What failed is never tried again and then acknowledged: after a sync that failed, the next one succeeds although the
pages may be gone.
"""

import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.log.disk import SyncFailedError
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError

logger = logging.getLogger(__name__)

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
TOO_MANY_FILES = (errno.EMFILE, errno.ENFILE)
PASSING = (*FULL, *TOO_MANY_FILES)


def may_pass(error: OSError) -> bool:
    """Whether the directory can be relied on all the same."""
    return error.errno in PASSING and not isinstance(error, SyncFailedError)


def lacks_files(error: KafkaError) -> bool:
    """Whether it was raised for want of one more open file, which passes without a word."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in TOO_MANY_FILES


class Health:
    """Shared by all users of one log directory, from any thread. `on_failure` is called once, when `failure` is set."""

    __slots__ = ("failure", "is_full", "on_failure", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.on_failure: Callable[[], object] | None = None
        self.failure: KafkaError | None = None
        self.is_full = False

    def check(self) -> None:
        """KafkaError(KAFKA_STORAGE_ERROR) if the directory is offline."""
        if self.failure is not None:
            raise KafkaError(self.failure.code, self.failure.message)

    @contextmanager
    def reporting(self, what: str) -> Iterator[None]:
        """OSError becomes KAFKA_STORAGE_ERROR, nonsense in the files CORRUPT_MESSAGE."""
        self.check()
        try:
            yield
        except OSError as error:
            raise self.report(error, what) from error
        except DecodeError as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{what}: {error}") from error

    @contextmanager
    def raising(self, what: str) -> Iterator[None]:
        """OSError becomes KAFKA_STORAGE_ERROR, also in a directory that is offline."""
        try:
            yield
        except OSError as error:
            raise self.report(error, what) from error

    def report(self, error: OSError, what: str) -> KafkaError:
        """The error to raise when the operating system refuses `what`."""
        if may_pass(error):
            self.is_full |= error.errno in FULL
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{what}: {error}")
        return self.give_up(error, what)

    def give_up(self, error: OSError, what: str) -> KafkaError:
        """As `report`, of an error after which the directory cannot be relied on, whatever it is."""
        if self.failure is None:
            self.failure = KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory {self.path} is offline: {what}: {error}"
            )
            logger.error(
                "%s. It is neither written nor read until this node starts again: mend or replace the disk",
                self.failure.message,
            )
            if self.on_failure is not None:
                self.on_failure()
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{what}: {error}")
