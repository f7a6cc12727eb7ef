"""Durations as settings and options name them, by ISO 8601: `P1DT2H30M`."""

import re
from typing import Final

_DURATION = re.compile(
    r"(?P<sign>-?)P(?:(?P<days>#)D)?"
    r"(?:T(?:(?P<hours>#)H)?(?:(?P<minutes>#)M)?(?:(?P<seconds>#(?:\.[0-9]{1,9})?)S)?)?".replace("#", "[0-9]{1,10}"),
    re.IGNORECASE,
)
_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}


def parse_duration_ms(text: str) -> int:
    """ISO 8601. ValueError."""
    match = _DURATION.fullmatch(text)
    parts = (
        {name: float(value) for name, value in match.groupdict().items() if value and name != "sign"} if match else {}
    )
    if match is None or not parts:
        raise ValueError(f"{text!r} is no duration: write it as P1DT2H30M, days before the T and hours behind it")
    total = sum(value * _MS[name] for name, value in parts.items())
    return round(-total if match["sign"] else total)
