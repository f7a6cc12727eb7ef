"""Moments as options name them: `2026-01-31T12:00:00.000`."""

from datetime import UTC, datetime


def parse_datetime_ms(text: str) -> int:
    """`text` is of ISO 8601; without a zone it is UTC. Raises ValueError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no moment: write it as 2026-01-31T12:00:00.000") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
