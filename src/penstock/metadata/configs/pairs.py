"""Text that is made of pairs: files of Java's properties, and values that are lists of items with colons.

A line of properties is `key=value`, `key:value` or `key value`; `#` and `!` begin comments; a backslash at the end of a
line continues it on the next; `\\t \\n \\r \\f \\uXXXX` are escapes, and before any other character a backslash stands
for that character. Of a key that comes twice the last value counts. Bytes are UTF-8, or Latin-1 where they are not
UTF-8.
"""

import re
from collections.abc import Iterator, Mapping

from penstock.metadata.configs.definitions import ConfigError
from penstock.protocol.address import is_number, split_address

ADDRESS_LIMITS_KEY = "max.connections.per.ip.overrides"
PINNED_LEADERS_KEY = "leader.balance.pinned"
_SPACE = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.)", re.DOTALL)
_TO_ESCAPE_IN_KEYS = re.compile(r"[^ -~]|[\\ =:#!]")
_TO_ESCAPE_IN_VALUES = re.compile(r"[^ -~]|\\|^ ")
_LETTERS = {character: letter for letter, character in _ESCAPES.items()}


class PropertiesError(ValueError):
    """A file or an option that cannot be read as keys and values; the text says what and why."""


def parse_address_limits(text: str) -> dict[str, int]:
    """Items are `address:number`, with a number of at least 0; IPv6 may stand in brackets. Raises ConfigError."""
    limits: dict[str, int] = {}
    for item in _items(text):
        address, number = split_address(item)
        if not address or not is_number(number):
            raise ConfigError(ADDRESS_LIMITS_KEY, text, "address:number pairs with commas between")
        limits[address] = int(number)
    return limits


def parse_pinned_leaders(text: str) -> dict[tuple[str, int], int]:
    """Items are `topic:partition:broker`. Raises ConfigError, also for a partition that comes twice."""
    pinned: dict[tuple[str, int], int] = {}
    for item in _items(text):
        topic, *numbers = item.split(":")
        if not topic or len(numbers) != 2 or not all(map(is_number, numbers)):
            raise ConfigError(PINNED_LEADERS_KEY, text, "topic:partition:broker with commas between")
        partition = topic, int(numbers[0])
        if partition in pinned:
            raise ConfigError(PINNED_LEADERS_KEY, text, f"each partition once, and {topic}-{numbers[0]} comes twice")
        pinned[partition] = int(numbers[1])
    return pinned


def _items(text: str) -> Iterator[str]:
    return filter(None, (part.strip() for part in text.split(",")))


def decode_properties(raw: bytes) -> dict[str, str]:
    """PropertiesError: an escape that is not finished."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return parse_properties(text)


def parse_properties(text: str) -> dict[str, str]:
    return dict(_split(line) for line in _logical_lines(text))


def properties_text(settings: Mapping[str, str], *comments: str) -> str:
    """What Java reads as well: characters beyond ASCII are escapes."""
    lines = (*(f"# {comment}" for comment in comments), *(property_line(*pair) for pair in settings.items()))
    return "".join(f"{line}\n" for line in lines)


def property_line(key: str, value: str) -> str:
    return f"{_TO_ESCAPE_IN_KEYS.sub(_escaped, key)}={_TO_ESCAPE_IN_VALUES.sub(_escaped, value)}"


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if character in _LETTERS:
        return f"\\{_LETTERS[character]}"
    if " " <= character <= "~":
        return f"\\{character}"
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _logical_lines(text: str) -> Iterator[str]:
    """Give the lines that say something, with their continuations joined and the space before them gone."""
    pending: str | None = None
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(_SPACE)
        if pending is None and (not line or line[0] in "#!"):
            continue
        line = (pending or "") + line
        if _is_continued(line):
            pending = line[:-1]
            continue
        pending = None
        if line:
            yield line
    if pending:
        yield pending


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Split a line at the first separator that no backslash precedes: `=`, `:` or space, with space around it."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _SPACE:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_SPACE)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_SPACE)
    try:
        return _unescape(line[:end]), _unescape(rest)
    except PropertiesError as error:  # the value may be a password
        raise PropertiesError(f"{line[:end]}: {error}") from None


def _unescape(text: str) -> str:
    return _join_surrogates(_ESCAPE.sub(_unescaped, text))


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if code == "u":
        raise PropertiesError("\\u needs four hexadecimal digits")
    if len(code) == 5:
        return chr(int(code[1:], 16))
    return _ESCAPES.get(code, code)


def _join_surrogates(text: str) -> str:
    """Make one character of two `\\uXXXX` that Java writes for one beyond the first plane."""
    if not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
