"""Moments and durations as options name them: `2026-01-31T12:00:00.000`, `P1DT2H30M`."""

import re
from datetime import UTC, datetime
from typing import Final

_DURATION = re.compile(
    r"(?P<sign>-?)P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}


def parse_datetime_ms(text: str) -> int:
    """An ISO 8601 moment in milliseconds since 1970; without a zone it is UTC. ValueError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no moment: write it as 2026-01-31T12:00:00.000") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def parse_duration_ms(text: str) -> int:
    """An ISO 8601 duration in milliseconds. ValueError."""
    match = _DURATION.fullmatch(text)
    parts = (
        {name: float(value) for name, value in match.groupdict().items() if value and name != "sign"} if match else {}
    )
    if match is None or not parts:
        raise ValueError(f"{text!r} is no duration: write it as P1DT2H30M, days before the T and hours behind it")
    total = sum(value * _MS[name] for name, value in parts.items())
    return round(-total if match["sign"] else total)
