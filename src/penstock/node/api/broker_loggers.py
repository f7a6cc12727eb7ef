"""The levels of this process's loggers as configurations of the resource type BROKER_LOGGER (KIP-412).

Levels have Kafka's names; TRACE is what Python calls DEBUG, and FATAL is CRITICAL. They hold until the node stops: they
are no metadata, so the controller never hears of them. A logger is named as in the log; the one above all is `root`.
"""

import logging
from collections.abc import Iterator, Sequence

from penstock.metadata.configs.definitions import ConfigDefinition, ConfigType, UpdateMode
from penstock.metadata.configs.effective import ConfigEntry, ConfigSource
from penstock.node.serving.access import audit_log
from penstock.node.serving.dispatch import request_log
from penstock.node.serving.slices import Pace, Steps
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.incremental_alter_configs import AlterableConfig

ROOT = "root"
OURS = "penstock"
SET, DELETE = 0, 1
CHANGES_A_STEP = 50

_LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_NAMES = {number: name for name, number in _LEVELS.items()}


def logger_entries() -> Iterator[ConfigEntry]:
    """Describe the level that holds for each logger of ours, and for the root."""
    for name, logger in _loggers().items():
        level = _NAMES.get(logger.getEffectiveLevel(), "INFO")
        definition = ConfigDefinition(
            name, ConfigType.STRING, None, None, f"One of {', '.join(_LEVELS)}.", mode=UpdateMode.PER_BROKER
        )
        yield ConfigEntry(definition, level, ConfigSource.DYNAMIC_BROKER_LOGGER, False, ())


def change_loggers(changes: Sequence[AlterableConfig], *, validate_only: bool) -> Steps[None]:
    """Set levels, or take them back, all or none.

    Raises:
        KafkaError: INVALID_CONFIG for a logger or a level that does not exist, INVALID_REQUEST for another operation.
    """
    loggers, pace = _loggers(), Pace(CHANGES_A_STEP)
    levels: dict[logging.Logger, int] = {}
    for change in changes:
        if pace.is_due():
            yield None
        levels[_logger(loggers, change.name)] = _level(change)
    if not validate_only:
        for logger, level in levels.items():  # each has all loggers forget what they know of theirs
            if pace.is_due():
                yield None
            logger.setLevel(level)


def _loggers() -> dict[str, logging.Logger]:
    known = logging.root.manager.loggerDict
    ours = {
        name: logger
        for name, logger in sorted(known.items())
        if isinstance(logger, logging.Logger) and name.partition(".")[0] == OURS
    }
    of_kafkas_names = {logger.name: logger for logger in (audit_log, request_log)}
    return {ROOT: logging.root, OURS: logging.getLogger(OURS), **of_kafkas_names, **ours}


def _logger(loggers: dict[str, logging.Logger], name: str) -> logging.Logger:
    if name not in loggers:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name}: there is no such logger")
    return loggers[name]


def _level(change: AlterableConfig) -> int:
    if change.config_operation == SET:
        level = _LEVELS.get(change.value or "")
        if level is None:
            message = f"{change.name}: {change.value!r} is not allowed; expected one of {', '.join(_LEVELS)}"
            raise KafkaError(ErrorCode.INVALID_CONFIG, message)
        return level
    if change.config_operation == DELETE and change.name != ROOT:
        return logging.NOTSET
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"{change.name}: a level is set or, but for {ROOT}, deleted")
