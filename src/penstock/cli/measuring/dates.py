"""Moments in the patterns of Java's SimpleDateFormat, as `--date-format` takes them: `yyyy-MM-dd HH:mm:ss:SSS`."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from penstock.cli.terminal.failures import wrong_usage
from penstock.cli.terminal.options import option
from penstock.protocol.value import Value

FIELDS: Final = {"y": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second", "S": "microsecond"}
_FIELD: Final = re.compile(r"'([^']*)'|([A-Za-z])\2*")


def java_date(pattern: str, moment: datetime) -> str:
    """ValueError for a letter that stands for something else than a number of FIELDS."""

    def shown(match: re.Match[str]) -> str:
        letter = match[2]
        if letter is None:
            return match[1] or "'"
        if letter not in FIELDS:
            raise ValueError(f"{letter!r} in {pattern!r}: known are {', '.join(FIELDS)}")
        number = getattr(moment, FIELDS[letter])
        if letter == "S":
            number //= 1000
        elif letter == "y" and len(match[0]) == 2:
            number %= 100
        return str(number).zfill(len(match[0]))

    return _FIELD.sub(shown, pattern)


class Dated(Value, kw_only=True):
    """How the lines of a report begin."""

    hide_header: bool = option("Leave out the names of the columns.")
    date_format: str = option(
        "How times are written, in the letters of Java's SimpleDateFormat.",
        default="yyyy-MM-dd HH:mm:ss:SSS",
        show_default=True,
    )

    def date(self, time_s: float) -> str:
        """Raises UsageError."""
        with wrong_usage(ValueError, of="--date-format"):
            return java_date(self.date_format, datetime.fromtimestamp(time_s))
