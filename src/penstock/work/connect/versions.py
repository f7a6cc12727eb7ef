"""Versions of plugins, and what a configuration asks of one: `1.2`, `[1.0,2.0)`, `(,1.5],[1.7,)`, `latest` (KIP-891).

One version of a plugin is installed, so a `plugin.version` that this is not fails where it is looked up.
"""

import re
from itertools import zip_longest
from typing import Final

LATEST: Final = "latest"
_RANGE: Final = re.compile(r"\s*([\[(])([^\[\](),]*)(?:(,)([^\[\](),]*))?([\])])\s*(?:,|\Z)")
_BEFORE_A_RELEASE: Final = ("dev", "a", "alpha", "b", "beta", "milestone", "m", "rc", "cr", "snapshot")
_RELEASE: Final = (1, 0, "")
Order = list[tuple[int, int, str]]


def fits(version: str, wanted: str) -> bool:
    """ValueError if that is no range of versions."""
    wanted = wanted.strip()
    if wanted == LATEST:
        return True
    if not wanted.startswith(("[", "(")):
        if not wanted or re.search(r"[\[\](),\s]", wanted):
            raise ValueError(f"{wanted!r} is no version and no range such as [1.0,2.0)")
        return _compare(version, wanted) == 0
    holds = [_is_in(version, *one) for one in _ranges(wanted)]  # each is read, as a bad one is an error
    return any(holds)


def _ranges(text: str) -> list[tuple[str, str, str, str]]:
    """Each by its brackets and its ends, of which one may be empty; ValueError."""
    found: list[tuple[str, str, str, str]] = []
    start = 0
    while start < len(text):
        part = _RANGE.match(text, start)
        if part is None or (part[3] is None and (part[1] + part[5] != "[]" or not part[2].strip())):
            raise ValueError(f"{text!r} is no range of versions such as [1.0,2.0)")
        low = part[2].strip()
        found.append((part[1], low, low if part[3] is None else part[4].strip(), part[5]))
        start = part.end()
    return found


def _is_in(version: str, opening: str, low: str, high: str, closing: str) -> bool:
    return (not low or _compare(low, version) < (opening == "[")) and (
        not high or _compare(version, high) < (closing == "]")
    )


def _compare(one: str, other: str) -> int:
    for left, right in zip_longest(_order(one), _order(other), fillvalue=_RELEASE):
        if left != right:
            return -1 if left < right else 1
    return 0


def _order(version: str) -> Order:
    """Numbers count most; words come behind a release of the same numbers, but for those of what goes before it."""
    parts: Order = []
    for part in re.findall(r"\d+|[a-z]+", version.lower()):
        if part.isdecimal():
            parts.append((2, int(part), ""))
            continue
        parts = _shortest(parts)
        is_before = part in _BEFORE_A_RELEASE
        parts.append((0, _BEFORE_A_RELEASE.index(part), "") if is_before else (1, 1, part))
    return _shortest(parts)


def _shortest(parts: Order) -> Order:
    """1.0 is 1."""
    while parts and parts[-1] == (2, 0, ""):
        parts = parts[:-1]
    return parts
