"""Configuration of connectors, converters and transforms: keys with types, defaults and what they are for."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from penstock.protocol.value import Value

PASSWORD: Final = "password"
_TRUTH: Final = {"true": True, "false": False}


class ConfigError(ValueError):
    """The text names each wrong key with the reason."""

    def __init__(self, errors: Mapping[str, Sequence[str]]) -> None:
        super().__init__("; ".join(reason for reasons in errors.values() for reason in reasons))
        self.errors = errors


def _boolean(text: str) -> bool:
    if text.lower() not in _TRUTH:
        raise ValueError("it is true or false")
    return _TRUTH[text.lower()]


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


TYPES: Final[Mapping[str, Callable[[str], Any]]] = {
    "string": str,
    "short": int,
    "int": int,
    "long": int,
    "double": float,
    "boolean": _boolean,
    "list": _list,
    "class": str,
    PASSWORD: str,
}


class ConfigKey(Value):
    """A key without a default (`required`) has to be given; `choices` are all that is allowed, with `any_case` in small
    or large letters, and `check` raises ValueError for what is not.
    """

    name: str
    type: str = "string"
    default: Any = None
    documentation: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()
    least: float | None = None
    check: Callable[[str], object] | None = None
    importance: str = "medium"
    any_case: bool = False

    def parse(self, text: str | None) -> Any:
        """ValueError says what is wrong."""
        if text is None:
            if self.required:
                raise ValueError(f"{self.name} is missing: {self.documentation}")
            return self.default
        try:
            value = TYPES[self.type](text.strip())
        except ValueError as error:
            raise ValueError(f"{self.name}={text} is no {self.type}: {error}") from None
        if self.check is not None:
            self.check(text)
        if self.any_case:
            value = next((one for one in self.choices if one.lower() == value.lower()), value)
        if self.choices and value not in self.choices:
            near = difflib.get_close_matches(str(value), self.choices, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(f"{self.name}={text}: allowed are {', '.join(self.choices)}{hint}")
        if self.least is not None and value < self.least:
            raise ValueError(f"{self.name}={text} is less than {self.least}")
        return value


def parse(keys: Sequence[ConfigKey], config: Mapping[str, str]) -> dict[str, Any]:
    """ConfigError names everything that is wrong. Other keys are ignored."""
    values: dict[str, Any] = {}
    errors: dict[str, list[str]] = {}
    for key in keys:
        try:
            values[key.name] = key.parse(config.get(key.name))
        except ValueError as error:
            errors.setdefault(key.name, []).append(str(error))
    if errors:
        raise ConfigError(errors)
    return values


def bare(address: str) -> str:
    """An address as errors name it: who logs in there, and what is asked, may be secret."""
    try:
        parts = urlsplit(address)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    except ValueError:
        return "what is no address"


def with_prefix(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The keys with this prefix, without it."""
    return {key[len(prefix) :]: value for key, value in config.items() if key.startswith(prefix)}
