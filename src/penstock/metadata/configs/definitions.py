"""What a configuration key is: its type, default, what it allows, and how its text becomes a value.

Contract: a definition never changes; `parse_value` is the only way from text to value, and whatever it refuses is a
`ConfigError` that names the key, the value and what is allowed.
"""

import difflib
import math
from collections import Counter
from collections.abc import Mapping
from enum import Enum, IntEnum
from functools import lru_cache
from heapq import nlargest
from typing import Final

from penstock.metadata.configs.without_effect import why_no_effect
from penstock.protocol.value import Value

ConfigValue = bool | int | float | str | tuple[str, ...] | None


MOST_SHOWN: Final = 1_000
"""Characters of a value in an error, which has to have room in a response, and in a log."""

LIKENESS: Final = 0.75
"""Of what may be meant by a name: twice the letters that both have in the same order, by all letters."""
LONGEST_LIKE_A_KEY: Final = 128
"""No key is so long that a longer name could be like it."""
MOST_COMPARED: Final = 3
ROW_BITS: Final = 16


class ConfigType(IntEnum):
    """Numbered as in the DescribeConfigs response."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class UpdateMode(Enum):
    """Whether a broker key can be changed while the node runs, and for which brokers."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class ConfigError(ValueError):
    """The text names the key, the value (the beginning of a long one) and what is allowed."""

    def __init__(self, key: str, value: str | None, allowed: str) -> None:
        shown = value if value is None or len(value) <= MOST_SHOWN else f"{value[:MOST_SHOWN]}…"
        found = "it is not set" if value is None else f"{shown!r} is not allowed"
        super().__init__(f"{key}: {found}; expected {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed


class Range(Value):
    """Both ends are included; `also` is a single value beside them."""

    lower: int | None = None
    upper: int | None = None
    also: int | None = None

    def allows(self, value: ConfigValue) -> bool:
        if not isinstance(value, int | float):
            return True
        if self.also is not None and value == self.also:
            return True
        return (self.lower is None or value >= self.lower) and (self.upper is None or value <= self.upper)

    def describe(self) -> str:
        """The text follows the name of the type."""
        if self.upper is None:
            text = f"of at least {self.lower}"
        else:
            text = f"from {self.lower} to {self.upper}"
        return text if self.also is None else f"{text}, or {self.also}"


class OneOf(Value):
    """For a list, each of its items is one of the words."""

    words: tuple[str, ...]

    def allows(self, value: ConfigValue) -> bool:
        if value is None:
            return True
        items = value if isinstance(value, tuple) else (value,)
        return all(item in self.words for item in items)

    def describe(self) -> str:
        """The text follows the name of the type."""
        return "of " + ", ".join(self.words)


Validator = Range | OneOf


class ConfigDefinition(Value):
    """`default` is text as it would stand in a file; None means that the key has no default."""

    name: str
    type: ConfigType
    default: str | None
    validator: Validator | None
    documentation: str
    importance: Importance = Importance.MEDIUM
    mode: UpdateMode = UpdateMode.READ_ONLY

    @property
    def meaning(self) -> str:
        """It says why a key has no effect, too."""
        reason = why_no_effect(self.name)
        return self.documentation if reason is None else f"{self.documentation} No effect: {reason}."

    @property
    def sensitive(self) -> bool:
        """The value is never shown."""
        return self.type is ConfigType.PASSWORD

    def shown(self, text: str) -> str:
        return "[hidden]" if self.sensitive else text

    @property
    def read_only(self) -> bool:
        """Only a restart changes the value."""
        return self.mode is UpdateMode.READ_ONLY

    @property
    def allowed(self) -> str:
        name = self.type.name.lower()
        if self.validator is None:
            return _TYPE_ALLOWED[self.type]
        return f"{'an' if name == 'int' else 'a'} {name} {self.validator.describe()}"


_TYPE_ALLOWED: dict[ConfigType, str] = {
    ConfigType.BOOLEAN: "true or false",
    ConfigType.STRING: "a text",
    ConfigType.INT: "a whole number of 32 bits",
    ConfigType.SHORT: "a whole number of 16 bits",
    ConfigType.LONG: "a whole number of 64 bits",
    ConfigType.DOUBLE: "a number",
    ConfigType.LIST: "a list of texts with commas between them",
    ConfigType.CLASS: "the name of a class",
    ConfigType.PASSWORD: "a text",
}

_INTEGER_BITS: dict[ConfigType, int] = {ConfigType.INT: 32, ConfigType.SHORT: 16, ConfigType.LONG: 64}

Definitions = Mapping[str, ConfigDefinition]


def parse_value(definition: ConfigDefinition, text: str | None) -> ConfigValue:
    """None stays None. Raises ConfigError for text that the key's type or validator does not allow."""
    if text is None:
        return None
    try:
        value = _convert(definition.type, text.strip())
    except ValueError:
        raise ConfigError(definition.name, definition.shown(text), definition.allowed) from None
    if definition.validator is not None and not definition.validator.allows(value):
        raise ConfigError(definition.name, definition.shown(text), definition.allowed)
    return value


def _convert(kind: ConfigType, text: str) -> ConfigValue:
    if kind is ConfigType.BOOLEAN:
        return _boolean(text)
    if kind in _INTEGER_BITS:
        return _integer(text, _INTEGER_BITS[kind])
    if kind is ConfigType.DOUBLE:
        number = float(text)
        if math.isnan(number):
            raise ValueError(text)
        return number
    if kind is ConfigType.LIST:
        return tuple(item.strip() for item in text.split(",")) if text else ()
    return text


def is_true(text: str | None) -> bool:
    """What a key that is true or false has, as somebody has written it: TRUE is true."""
    return text is not None and text.strip().lower() == "true"


def _boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError(text)
    return lowered == "true"


def _integer(text: str, bits: int) -> int:
    if "_" in text or not text.isascii():
        raise ValueError(text)
    number = int(text)
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ValueError(text)
    return number


def nearest_key(name: str, known: Definitions) -> str | None:
    """The one that looks most like it, if any does. A request may have very many names that are to be looked for: few
    keys are compared with one, those that have most letters in common with it, wherever these stand.
    """
    if len(name) > LONGEST_LIKE_A_KEY:
        return None
    letters = _letters(name)
    shares = ((2 * (letters & _known_letters(key)).bit_count() / (len(name) + len(key)), key) for key in known)
    most = nlargest(MOST_COMPARED, (each for each in shares if each[0] >= LIKENESS))
    matches = difflib.get_close_matches(name, [key for _, key in most], n=1, cutoff=LIKENESS)
    return matches[0] if matches else None


def _letters(text: str) -> int:
    """A row of bits for each letter, with as many ones as it is there: those of two texts have those in common that
    both have.
    """
    bits = 0
    for letter, count in Counter(text).items():
        bits |= ((1 << min(count, ROW_BITS)) - 1) << ROW_BITS * (ord(letter) & 0x7F)
    return bits


_known_letters = lru_cache(maxsize=2_048)(_letters)
"""There are fewer keys."""
