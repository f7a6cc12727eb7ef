"""Loggers that requests name: Python keeps each of them for ever, so there are not any number."""

import logging

import pytest

from penstock.work.connect.runtime import loggers
from penstock.work.connect.runtime.loggers import LONGEST, LoggerError, Loggers

NAME = "of_test_loggers"


def test_requests_may_name_so_many_loggers_that_no_code_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loggers, "MOST_NEW", 2)
    known = Loggers(lambda: 7)
    for name in ("a", "b"):
        for _ in range(2):
            assert known.set(f"{NAME}.{name}", "DEBUG") == [f"{NAME}.{name}"]
    with pytest.raises(LoggerError, match=f"there is no logger {NAME}.c, and 2 were made by requests already"):
        known.set(f"{NAME}.c", "DEBUG")
    assert f"{NAME}.c" not in logging.root.manager.loggerDict
    logging.getLogger(f"{NAME}.c")
    assert known.set(f"{NAME}.c", "INFO") == [f"{NAME}.c"]
    assert known.one(f"{NAME}.c") == {"level": "INFO", "last_modified": 7}


def test_a_name_of_very_many_parts_makes_none() -> None:
    """Python keeps something for each beginning of it."""
    before = len(logging.root.manager.loggerDict)
    with pytest.raises(LoggerError, match="a new one has at most 250 characters"):
        Loggers(lambda: 7).set("a." * LONGEST, "DEBUG")
    assert len(logging.root.manager.loggerDict) == before
    Loggers(lambda: 7).check("a" * LONGEST)
