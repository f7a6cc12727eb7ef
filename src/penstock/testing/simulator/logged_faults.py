"""An exception that simulated code logs is a defect: whatever a disk or a peer does has an answer."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _LogReader(logging.Handler):
    def __init__(self, violated: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self._violated = violated

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self._violated(f"{record.name}: {record.getMessage()}: {record.exc_info[1]!r}")


@contextmanager
def faults_in_logs(violated: Callable[[str], None], *packages: str) -> Iterator[None]:
    """Tells `violated` of exceptions that these packages log, Penstock by default, and suppresses their logs."""
    handler, loggers = _LogReader(violated), [logging.getLogger(name) for name in packages or ("penstock",)]
    before = [(logger.propagate, logger.level) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, (propagate, level) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.propagate = propagate
            logger.setLevel(level)
