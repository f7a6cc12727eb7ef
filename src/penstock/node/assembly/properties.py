"""Where a node's configuration comes from: a `.properties` file, the environment, and `--set` on the command line.

A later one goes before an earlier one: file, then environment, then `--set`. Without a file the embedded single node's
settings stand in for it. In the environment a key is written in capitals with underscores for dots behind `PENSTOCK_`:
`PENSTOCK_NUM_PARTITIONS=3` is `num.partitions=3`. A variable that is no key is ignored; one that looks like a misspelt
key is a warning.

The file's format is that of Java's properties: `key=value`, `key:value` or `key value`; `#` and `!` begin comments; a
backslash at the end of a line continues it on the next; `\\t \\n \\r \\f \\uXXXX` are escapes, and before any other
character a backslash stands for that character. Of a key that comes twice the last value counts. Bytes are UTF-8, or
Latin-1 where they are not UTF-8.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from penstock.metadata.configs.broker import BROKER_CONFIGS, is_free_key
from penstock.metadata.configs.broker_config import BrokerConfig, embedded_settings
from penstock.metadata.configs.definitions import nearest_key
from penstock.protocol.value import Value

ENVIRONMENT_PREFIX = "PENSTOCK_"

_SPACE = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.)", re.DOTALL)


class PropertiesError(ValueError):
    """A file or an option that cannot be read as keys and values; the text says what and why."""


class LoadedConfig(Value):
    """A node's configuration, and what its user should know about it, one line each."""

    config: BrokerConfig
    warnings: tuple[str, ...]


def load_config(
    file: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    overrides: Iterable[str] = (),
) -> LoadedConfig:
    """Put a configuration together from a file (or none), the environment's variables and `key=value` overrides.

    Raises:
        PropertiesError: The file cannot be read, or an override is not `key=value`.
        ConfigError: A value that is not allowed.
    """
    in_file = None if file is None else read_properties(file)
    from_environment, warnings = environment_settings(environment or {})
    given = from_environment | dict(parse_override(override) for override in overrides)
    config = BrokerConfig(embedded_settings(given) if in_file is None else in_file | given)
    return LoadedConfig(config, (*warnings, *config.warnings()))


def read_properties(file: Path) -> dict[str, str]:
    """Read a `.properties` file.

    Raises:
        PropertiesError: The file is not there, cannot be read, or has an escape that is not finished.
    """
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise PropertiesError(f"{file}: cannot be read: {error.strerror}") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    try:
        return parse_properties(text)
    except PropertiesError as error:
        raise PropertiesError(f"{file}: {error}") from None


def parse_properties(text: str) -> dict[str, str]:
    return dict(_split(line) for line in _logical_lines(text))


def parse_override(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise PropertiesError(f"--set {text}: expected key=value")
    return key.strip(), value.strip()


def environment_settings(environment: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Pick the keys out of the environment; also a warning for each variable that looks like a misspelt key."""
    settings: dict[str, str] = {}
    warnings: list[str] = []
    for variable, value in sorted(environment.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        key = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".")
        if key in BROKER_CONFIGS or is_free_key(key):
            settings[key] = value
        elif (nearest := nearest_key(key, BROKER_CONFIGS)) is not None:
            meant = ENVIRONMENT_PREFIX + nearest.upper().replace(".", "_")
            warnings.append(f"unknown variable {variable}; did you mean {meant}?")
    return settings, tuple(warnings)


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
    return _unescape(line[:end]), _unescape(rest)


def _unescape(text: str) -> str:
    return _join_surrogates(_ESCAPE.sub(_unescaped, text))


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if code == "u":
        raise PropertiesError(f"{match.string!r}: \\u needs four hexadecimal digits")
    if len(code) == 5:
        return chr(int(code[1:], 16))
    return _ESCAPES.get(code, code)


def _join_surrogates(text: str) -> str:
    """Make one character of two `\\uXXXX` that Java writes for one beyond the first plane."""
    if not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
