"""Values that stand elsewhere (KIP-297): `${file:/etc/secrets.properties:password}` is looked up where it is used.

    config.providers=file
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.file.param.allowed.paths=/etc/secrets.properties

| class | a reference to it |
| --- | --- |
| `FileConfigProvider` | `${name:file of properties:key}` |
| `DirectoryConfigProvider` | `${name:directory:file}`, whose whole content is the value |
| `EnvVarConfigProvider` | `${name:variable}` |

What is written down and shown keeps the reference. One that names no provider of the configuration is no reference.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from penstock.metadata.configs.pairs import decode_properties
from penstock.protocol.value import Value, fresh

PACKAGE: Final = "org.apache.kafka.common.config.provider"
KEY: Final = "config.providers"
MAX_BYTES: Final = 1024 * 1024
"""Of a file."""
_REFERENCE: Final = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}")


class ProviderError(ValueError):
    """Keys that cannot be looked up, or name no provider, each with the reasons, which tell no value."""

    def __init__(self, errors: Mapping[str, Sequence[str]]) -> None:
        super().__init__("; ".join(reason for reasons in errors.values() for reason in reasons))
        self.errors = errors


class ShortLived(Value):
    """A value that is good for a while only: then it has to be looked up again."""

    text: str
    good_for_ms: int


class Resolved(Value):
    """A configuration with what its references stand for, and those themselves; `good_for_ms` None: for ever."""

    config: Mapping[str, str]
    good_for_ms: int | None = None
    looked_up: Mapping[str, str] = fresh(dict)


class ConfigProvider(Protocol):
    def configure(self, params: Mapping[str, str]) -> None:
        """ValueError."""

    def get(self, path: str, key: str) -> str | ShortLived:
        """LookupError, OSError, ValueError."""


class _OfPaths:
    """Everything may be read, or only what is in `allowed.paths`."""

    def configure(self, params: Mapping[str, str]) -> None:
        self._allowed = [_normal(path) for path in _items(params.get("allowed.paths", ""))]

    def _read(self, path: str) -> bytes:
        file = _normal(path)
        if self._allowed and not any(file.is_relative_to(one) for one in self._allowed):
            raise ValueError(f"{path} is not in allowed.paths")
        if file.exists() and not file.is_file():  # a device may have no end, and a pipe no beginning
            raise ValueError(f"{path} is no file")
        with file.open("rb") as opened:
            found = opened.read(MAX_BYTES + 1)
        if len(found) > MAX_BYTES:
            raise ValueError(f"{path} is larger than {MAX_BYTES} bytes")
        return found


class FileConfigProvider(_OfPaths):
    def get(self, path: str, key: str) -> str:
        found = decode_properties(self._read(path))
        if key not in found:
            raise LookupError(f"{path} has no key {key}")
        return found[key]


class DirectoryConfigProvider(_OfPaths):
    def get(self, path: str, key: str) -> str:
        if key != os.path.basename(key) or key in ("", ".", ".."):
            raise ValueError(f"{key!r} is no name of a file in {path}")
        return self._read(os.path.join(path, key)).decode()


class EnvVarConfigProvider:
    """Every variable, or only those whose whole names match `allowlist.pattern`."""

    def configure(self, params: Mapping[str, str]) -> None:
        self._allowed = re.compile(params.get("allowlist.pattern", ".*"))

    def get(self, path: str, key: str) -> str:
        if path:
            raise ValueError("a variable of the environment has no path")
        if key not in os.environ or not self._allowed.fullmatch(key):
            raise LookupError(f"there is no variable {key} that may be read")
        return os.environ[key]


PROVIDERS: Final[Mapping[str, type[Any]]] = {
    f"{PACKAGE}.{kind.__name__}": kind for kind in (FileConfigProvider, DirectoryConfigProvider, EnvVarConfigProvider)
}


def built_in(name: str) -> type[Any]:
    """By its whole name or the last part of it. ValueError."""
    found = PROVIDERS.get(name) or PROVIDERS.get(f"{PACKAGE}.{name}")
    if found is None:
        raise ValueError(f"there is no such provider; there are {', '.join(PROVIDERS)}")
    return found


class Providers:
    def __init__(self, config: Mapping[str, str], find: Callable[[str], type[Any]] = built_in) -> None:
        """Those of a configuration, whose classes `find` knows; it raises ValueError. ProviderError."""
        self._by_name: dict[str, ConfigProvider] = {}
        for name in _items(config.get(KEY, "")):
            key, params = f"{KEY}.{name}.class", f"{KEY}.{name}.param."
            try:
                provider: ConfigProvider = find(config.get(key, ""))()
                provider.configure({it.removeprefix(params): config[it] for it in config if it.startswith(params)})
            except (ValueError, re.error) as error:
                raise ProviderError({key: [f"{key}={config.get(key, '')}: {error}"]}) from error
            self._by_name[name] = provider

    def resolved(self, config: Mapping[str, str]) -> dict[str, str]:
        """With what its references stand for; it may read files. ProviderError."""
        return dict(self.look_up(config).config)

    def look_up(self, config: Mapping[str, str]) -> Resolved:
        """The same, and how long it is good."""
        found: dict[str, str] = {}
        lives_ms: list[int] = []
        looked_up: dict[str, str] = {}
        errors: dict[str, list[str]] = {}
        for key, value in config.items():
            try:
                found[key] = _REFERENCE.sub(partial(self._looked_up, looked_up, lives_ms), value)
            except (LookupError, OSError, ValueError) as error:
                errors[key] = [f"{key}={_references(value)} cannot be looked up: {error}"]
        if errors:
            raise ProviderError(errors)
        return Resolved(found, min(lives_ms, default=None), looked_up)

    def _looked_up(self, looked_up: dict[str, str], lives_ms: list[int], reference: re.Match[str]) -> str:
        name, path, key = reference.groups("")
        if name not in self._by_name:
            return reference[0]
        found = self._by_name[name].get(path, key)
        if isinstance(found, ShortLived):
            lives_ms.append(found.good_for_ms)
            found = found.text
        looked_up[reference[0]] = found
        return found


def resolved(config: Mapping[str, str]) -> dict[str, str]:
    """What a file of properties says, with its own providers, and without their keys. ProviderError."""
    plain = {key: value for key, value in config.items() if key != KEY and not key.startswith(f"{KEY}.")}
    return Providers(config).resolved(plain) if config.get(KEY) else plain


def with_references(
    made: Mapping[str, str], config: Mapping[str, str], found: Mapping[str, str], told: Iterable[str] = ()
) -> dict[str, str]:
    """What was made of `found`, which is what a configuration stands for, with the references that this has. Keys that
    are `told`, for they are no secrets, keep what else was made of them: a share of what a reference stands for.
    """
    own = {key for key in told if made.get(key) != found.get(key)}
    return {
        key: config[key] if key not in own and _REFERENCE.search(config.get(key, "")) else value
        for key, value in made.items()
    }


def told(text: str, found: Mapping[str, str], given: Mapping[str, str]) -> str:
    """What is said of a configuration, with the references that were given in place of what they stand for."""
    for key, value in found.items():
        if value and value != given[key]:
            text = text.replace(value, given[key]).replace(value.strip() or value, given[key])
    return text


def _references(value: str) -> str:
    """Without what stands around them, which may be a part of a password."""
    return "…".join(found[0] for found in _REFERENCE.finditer(value))


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _normal(path: str) -> Path:
    return Path(os.path.normpath(os.path.abspath(path)))
