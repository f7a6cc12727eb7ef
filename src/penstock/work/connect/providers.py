"""Values that stand elsewhere (KIP-297): `${file:/etc/secrets.properties:password}` is looked up where it is used.

    config.providers=file
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.file.param.allowed.paths=/etc/secrets.properties

| class | a reference to it |
| --- | --- |
| `FileConfigProvider` | `${name:file of properties:key}` |
| `DirectoryConfigProvider` | `${name:directory:file}`, whose whole content is the value |
| `EnvVarConfigProvider` | `${name:variable}` |

What is written down and shown keeps the reference. One that names no provider of the worker is no reference.
"""

import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from penstock.metadata.configs.pairs import decode_properties
from penstock.protocol.value import Value
from penstock.work.connect.config import ConfigError, ConfigKey, with_prefix
from penstock.work.connect.plugins import PluginError, find_class

PACKAGE: Final = "org.apache.kafka.common.config.provider"
KEY: Final = ConfigKey("config.providers", "list", (), "Where values stand that are not in a configuration, by names.")
_REFERENCE: Final = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}")


class ShortLived(Value):
    """A value that is good for a while only: then it has to be looked up again."""

    text: str
    good_for_ms: int


class Resolved(Value):
    """A configuration with what its references stand for; `good_for_ms` None: for ever."""

    config: Mapping[str, str]
    good_for_ms: int | None = None


class ConfigProvider(Protocol):
    def configure(self, params: Mapping[str, str]) -> None:
        """ValueError."""

    def get(self, path: str, key: str) -> str | ShortLived:
        """LookupError, OSError, ValueError."""


class _OfPaths:
    """Everything may be read, or only what is in `allowed.paths`."""

    def configure(self, params: Mapping[str, str]) -> None:
        allowed = ConfigKey("allowed.paths", "list", ()).parse(params.get("allowed.paths"))
        self._allowed = [_normal(path) for path in allowed]

    def _read(self, path: str) -> bytes:
        file = _normal(path)
        if self._allowed and not any(file.is_relative_to(one) for one in self._allowed):
            raise ValueError(f"{path} is not in allowed.paths")
        return file.read_bytes()


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


class Providers:
    def __init__(self, config: Mapping[str, str]) -> None:
        """Those of a worker; ConfigError."""
        self._by_name: dict[str, ConfigProvider] = {}
        for name in KEY.parse(config.get(KEY.name)):
            key = f"{KEY.name}.{name}.class"
            try:
                provider: ConfigProvider = find_class(config.get(key, ""), PROVIDERS, "config_provider")()
                provider.configure(with_prefix(config, f"{KEY.name}.{name}.param."))
            except (PluginError, ValueError, re.error) as error:
                raise ConfigError({key: [f"{key}={config.get(key, '')}: {error}"]}) from error
            self._by_name[name] = provider

    def resolved(self, config: Mapping[str, str]) -> dict[str, str]:
        """With what its references stand for; it may read files. ConfigError."""
        return dict(self.look_up(config).config)

    def look_up(self, config: Mapping[str, str]) -> Resolved:
        """The same, and how long it is good."""
        found: dict[str, str] = {}
        lives_ms: list[int] = []
        errors: dict[str, list[str]] = {}
        for key, value in config.items():
            try:
                found[key] = _REFERENCE.sub(partial(self._looked_up, lives_ms), value)
            except (LookupError, OSError, ValueError) as error:
                errors[key] = [f"{key}={value} cannot be looked up: {error}"]
        if errors:
            raise ConfigError(errors)
        return Resolved(found, min(lives_ms, default=None))

    def _looked_up(self, lives_ms: list[int], reference: re.Match[str]) -> str:
        name, path, key = reference.groups("")
        if name not in self._by_name:
            return reference[0]
        found = self._by_name[name].get(path, key)
        if isinstance(found, str):
            return found
        lives_ms.append(found.good_for_ms)
        return found.text


def with_references(made: Mapping[str, str], config: Mapping[str, str]) -> dict[str, str]:
    """What a connector has made from its configuration, with the references that this has, as Connect keeps it."""
    return {key: config[key] if _REFERENCE.search(config.get(key, "")) else value for key, value in made.items()}


def _normal(path: str) -> Path:
    return Path(os.path.normpath(os.path.abspath(path)))
