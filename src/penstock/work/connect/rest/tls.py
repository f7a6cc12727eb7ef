"""TLS of the REST interface by Connect's keys: those of `ssl.`, single ones replaced by `listeners.https.ssl.`.

Workers ask each other with the same ones, and so does `penstock connect`.
"""

import ssl
from collections.abc import Mapping
from typing import Final

from penstock.protocol.value import Value
from penstock.tls import stores
from penstock.tls.contexts import asking_context, serving_context
from penstock.tls.errors import TlsConfigError
from penstock.tls.keys import MakeContext
from penstock.work.connect.config import ConfigError, with_prefix

PREFIX: Final = "listeners.https."


class Tls(Value):
    listening: ssl.SSLContext
    asking: ssl.SSLContext


def tls_of(config: Mapping[str, str]) -> Tls:
    """A listener needs a key; ConfigError."""
    return Tls(_made(serving_context, config), asking_of(config))


def asking_of(config: Mapping[str, str]) -> ssl.SSLContext:
    """For clients, with a key or without; with a trust store only its certificates are trusted. ConfigError."""
    return _made(asking_context, config)


def _made(make: MakeContext, config: Mapping[str, str]) -> ssl.SSLContext:
    try:
        settings = {**config, **with_prefix(config, PREFIX)}
        return make(settings, stores.key_of(settings))
    except TlsConfigError as error:
        raise ConfigError({error.key: [str(error)]}) from error
