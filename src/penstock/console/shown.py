"""Keys, values and headers of records as JSON for a page: text, JSON or hex, and large ones cut."""

import json
from typing import Any, Final

MOST_BYTES: Final = 4_096
"""Of a value in a list of records."""
_PLAIN: Final = frozenset("\t\n\r")


def shown(data: bytes | None, most: int = MOST_BYTES) -> dict[str, Any]:
    """`kind` is null, json, text or hex, `text` what to show, `size` its bytes, `cut` whether that is more.

    What is JSON stays as it was written: a number has all its digits.
    """
    if data is None:
        return {"kind": "null", "text": "", "size": 0, "cut": False}
    part = bytes(data[:most])
    is_cut = len(data) > most
    text = _text(part, is_cut=is_cut)
    if text is None:
        return {"kind": "hex", "text": part.hex(), "size": len(data), "cut": is_cut}
    kind = "json" if not is_cut and _is_json(text) else "text"
    return {"kind": kind, "text": text, "size": len(data), "cut": is_cut}


def _text(data: bytes, *, is_cut: bool) -> str | None:
    """None for what is no text. A character that the cut went through is left out."""
    for left_out in range(4 if is_cut else 1):
        try:
            text = data[: len(data) - left_out].decode()
        except UnicodeDecodeError:
            continue
        return text if all(it >= " " or it in _PLAIN for it in text) else None
    return None


def _is_json(text: str) -> bool:
    if text[:1] not in "{[":
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
