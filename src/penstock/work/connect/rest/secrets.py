"""Configurations as answers show them: what is secret of them as `HIDDEN`; who writes that back leaves what is stored
as it is.
"""

from penstock.work.connect.rest.errors import bad_request
from penstock.work.connect.runtime.secret_values import HIDDEN, Config, secret_keys


def without_secrets(config: Config, also: Config | None = None, *, is_loaded: bool = True) -> dict[str, str | None]:
    """`also` is the configuration of the connector, if `config` is that of a task."""
    secrets = secret_keys({**(also or {}), **config}, is_loaded=is_loaded)
    return {key: HIDDEN if key in secrets and value is not None else value for key, value in config.items()}


def with_secrets(config: Config, stored: Config) -> dict[str, str | None]:
    """RestError if nothing is stored that is hidden."""
    secrets = secret_keys(config)
    whole = dict(config)
    for key, value in config.items():
        if value == HIDDEN:
            if stored.get(key) is not None:  # also what is hidden only where its plugin is not there
                whole[key] = stored[key]
            elif key in secrets:
                raise bad_request(f"{key} is {HIDDEN}, and no value of it is stored: give the value")
    return whole
