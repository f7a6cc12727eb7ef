"""Patterns of transactional ids: regular expressions that cannot take long, whatever they are and whatever they meet.

Kafka matches in a time that grows with the text alone (RE2). Python's `re` tries again and again where repetitions
stand side by side or within each other, and doubles its tries with each choice, so those are refused, as are references
back.
"""

import re
from collections.abc import Callable
from typing import Final

MOST_CHARACTERS: Final = 1_000
MOST_REPETITIONS: Final = 2
"""In one pattern; or within a text of `MOST_CHARACTERS` the tries were too many."""
CHOICES: Final = 10
"""So many choices (`?`, `|`), each of which may double the tries, stand in for one repetition."""
_COUNTED: Final = re.compile(r"\\.|\[(?:\\.|[^\]])*\]|\(\?:|[*+?|]|\{\d*,\d*\}")
_NOT_OFFERED: Final = re.compile(r"\\[1-9]|\(\?(?!:)|\)[*+{]")


def matcher(pattern: str | None) -> Callable[[str], bool]:
    """Whether the whole of an id fits. None and an empty pattern fit all. `re.error` for what is no such pattern."""
    if not pattern:
        return lambda text: True
    counted = [CHOICES if found[0] in "*+{" else found[0] in "?|" for found in _COUNTED.findall(pattern)]
    if len(pattern) > MOST_CHARACTERS or sum(counted) > MOST_REPETITIONS * CHOICES or _NOT_OFFERED.search(pattern):
        raise re.error("a pattern that may take long", pattern)
    fits = re.compile(pattern).fullmatch
    return lambda text: len(text) <= MOST_CHARACTERS and fits(text) is not None
