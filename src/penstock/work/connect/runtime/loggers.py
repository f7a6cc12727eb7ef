"""Log levels that can be changed while a worker runs, by the names that Kafka Connect has for them."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

LEVELS: Final[Mapping[str, int]] = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 10,
}
OTHER_NAMES: Final[Mapping[str, str]] = {"WARNING": "WARN", "CRITICAL": "FATAL", "ALL": "TRACE"}
ROOT: Final = "root"
MOST_NEW: Final = 1_000
"""Loggers that requests have named and no code has: Python never forgets one."""
LONGEST: Final = 250
"""Characters of such a name."""


class LoggerError(ValueError):
    pass


class Loggers:
    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._modified_ms: dict[str, int] = {}
        self._new = 0

    def all(self) -> dict[str, Any]:
        """Loggers with a level of their own."""
        own = {name: logger for name, logger in _known().items() if logger.level != logging.NOTSET}
        return {name: self._shown(name, own[name]) for name in sorted(own)}

    def one(self, name: str) -> dict[str, Any] | None:
        """With its effective level; None if there is no such logger."""
        logger = _known().get(_named(name))
        return None if logger is None else self._shown(_named(name), logger)

    def check(self, name: str) -> None:
        """LoggerError for one that would be new, where that is too much."""
        if _named(name) in _known():
            return
        if len(name) > LONGEST:
            raise LoggerError(f"there is no logger of that name, and a new one has at most {LONGEST} characters")
        if self._new >= MOST_NEW:
            raise LoggerError(f"there is no logger {name}, and {MOST_NEW:,} were made by requests already")

    def set(self, name: str, level: str) -> list[str]:
        """Change a logger and all below it; returns their names. KeyError for an unknown level, LoggerError."""
        number = LEVELS[level_named(level)]
        self.check(name)
        top, known = _named(name), _known()
        if top not in known:
            known[top] = logging.getLogger(top)
            self._new += 1
        changed = sorted(one for one in known if top == ROOT or one == top or one.startswith(f"{top}."))
        for one in changed:
            if known[one].level != number:
                known[one].setLevel(number)
                self._modified_ms[one] = self._now_ms()
        return changed

    def _shown(self, name: str, logger: logging.Logger) -> dict[str, Any]:
        effective = logger.getEffectiveLevel()
        level = next((word for word, number in LEVELS.items() if number >= effective), "OFF")
        return {"level": level, "last_modified": self._modified_ms.get(name)}


def level_named(name: str) -> str:
    """Connect's name of the level; KeyError."""
    upper = OTHER_NAMES.get(name.upper(), name.upper())
    if upper not in LEVELS:
        raise KeyError(name)
    return upper


def _named(name: str) -> str:
    return ROOT if name.lower() == ROOT else name


def _known() -> dict[str, logging.Logger]:
    there = {name: one for name, one in logging.root.manager.loggerDict.items() if isinstance(one, logging.Logger)}
    return {**there, ROOT: logging.root}
