"""Times in the forms that Connect's transforms know, and the formats of Java's SimpleDateFormat that are in use."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

TIMESTAMP_TYPES: Final = ("string", "unix", "Date", "Time", "Timestamp")
_UNITS: Final = {"seconds": 1_000_000_000, "milliseconds": 1_000_000, "microseconds": 1_000, "nanoseconds": 1}
_DAY_NS: Final = 86_400 * 1_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LETTERS: Final = {
    "yyyy": "%Y", "yy": "%y", "MMMM": "%B", "MMM": "%b", "MM": "%m", "dd": "%d", "HH": "%H", "hh": "%I", "mm": "%M",
    "ss": "%S", "SSS": "{ms}", "a": "%p", "EEEE": "%A", "EEE": "%a", "DDD": "%j", "Z": "%z", "XXX": "{zone}",
    "X": "{z}",
}  # fmt: skip
_TOKEN: Final = re.compile(r"'([^']*)'|([A-Za-z])\2*|[^A-Za-z']+")


def java_format(text: str) -> str:
    """A layout for `formatted` and `strptime`; ValueError names the unknown part."""
    parts: list[str] = []
    for match in _TOKEN.finditer(text):
        token = match.group()
        if match.group(1) is not None:
            parts.append((match.group(1) or "'").replace("%", "%%"))
        elif match.group(2) is None:
            parts.append(token.replace("%", "%%"))
        elif token in _LETTERS:
            parts.append(_LETTERS[token])
        else:
            raise ValueError(f"{token} in the format {text} is not known here; known are {', '.join(_LETTERS)}")
    return "".join(parts)


def formatted(moment: datetime, layout: str) -> str:
    """The moment is in UTC, the layout from `java_format`."""
    filled = layout.replace("{ms}", f"{moment.microsecond // 1000:03}").replace("{zone}", "Z").replace("{z}", "Z")
    return moment.strftime(filled)


def read_timestamp(value: Any, layout: str, precision: str) -> int | None:
    """Nanoseconds since 1970; ValueError."""
    if value is None:
        return None
    if isinstance(value, str):
        if not layout:
            raise ValueError(f"{value!r} is text, and no format is set")
        pattern = java_format(layout).replace("{ms}", "%f").replace("{zone}", "%z").replace("{z}", "%z")
        moment = datetime.strptime(value, pattern)
        if "%Y" not in pattern and "%y" not in pattern:  # Java begins with 1970, Python with 1900
            moment = moment.replace(year=1970)
        return (moment.replace(tzinfo=moment.tzinfo or UTC) - _EPOCH) // timedelta(microseconds=1) * 1_000
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is no time")
    return value * _UNITS[precision]


def write_timestamp(time_ns: int, target: str, layout: str, precision: str) -> Any:
    """ValueError."""
    if target == "unix":
        return time_ns // _UNITS[precision]
    if target == "string":
        if not layout:
            raise ValueError("text needs a format")
        return formatted(_EPOCH + timedelta(microseconds=time_ns // 1_000), java_format(layout))
    if target == "Date":
        return time_ns // _DAY_NS
    return (time_ns % _DAY_NS if target == "Time" else time_ns) // _UNITS["milliseconds"]
