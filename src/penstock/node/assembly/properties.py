"""Where a node's configuration comes from: a `.properties` file, the environment, and `--set` on the command line.

A later one goes before an earlier one: file, then environment, then `--set`. Without a file the embedded single node's
settings stand in for it. In the environment a key is written in capitals with underscores for dots behind `PENSTOCK_`:
`PENSTOCK_NUM_PARTITIONS=3` is `num.partitions=3`. A variable that is no key is ignored; one that looks like a misspelt
key is a warning. A value may stand elsewhere (`config.providers`).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from penstock.metadata.configs.broker import BROKER_CONFIGS, is_free_key
from penstock.metadata.configs.broker_config import BrokerConfig, embedded_settings
from penstock.metadata.configs.definitions import ConfigError, nearest_key
from penstock.metadata.configs.pairs import PropertiesError, decode_properties
from penstock.protocol.value import Value

ENVIRONMENT_PREFIX = "PENSTOCK_"


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
        PropertiesError: The file, or a value that stands elsewhere, cannot be read; an override is not `key=value`.
        ConfigError: A value that is not allowed.
    """
    in_file = None if file is None else read_properties(file)
    from_environment, warnings = environment_settings(environment or {})
    given = from_environment | dict(parse_override(override) for override in overrides)
    config = _configured(embedded_settings(given) if in_file is None else in_file | given)
    return LoadedConfig(config, (*warnings, *config.warnings()))


def _configured(settings: Mapping[str, str]) -> BrokerConfig:
    """Values that stand elsewhere are looked up, and told nowhere."""
    if not settings.get("config.providers"):
        return BrokerConfig(settings)
    from penstock.client.providers import ProviderError, Providers

    try:
        found = Providers(settings).resolved(settings)
    except ProviderError as error:
        raise PropertiesError(str(error)) from None
    references = {key: settings[key] for key, value in found.items() if value != settings[key]}
    try:
        return BrokerConfig(found, references)
    except ConfigError as error:
        raise ConfigError(error.key, references.get(error.key, error.value), error.allowed) from None


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
        return decode_properties(raw)
    except PropertiesError as error:
        raise PropertiesError(f"{file}: {error}") from None


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
