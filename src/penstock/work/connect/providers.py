"""The config providers of a worker: those of `penstock.client.providers`, and what packages offer."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from penstock.client import providers
from penstock.client.providers import PROVIDERS, ProviderError, Resolved
from penstock.work.connect.config import ConfigError, ConfigKey
from penstock.work.connect.plugins import find_class

KEY: Final = ConfigKey(providers.KEY, "list", (), "Where values stand that are not in a configuration, by names.")


class Providers(providers.Providers):
    def __init__(self, config: Mapping[str, str]) -> None:
        """Those of a worker; ConfigError."""
        try:
            super().__init__(config, partial(find_class, built_in=PROVIDERS, kind="config_provider"))
        except ProviderError as error:
            raise ConfigError(error.errors) from error

    def look_up(self, config: Mapping[str, str]) -> Resolved:
        """ConfigError."""
        try:
            return super().look_up(config)
        except ProviderError as error:
            raise ConfigError(error.errors) from error
