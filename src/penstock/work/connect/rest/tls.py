"""TLS of the REST interface by Connect's keys: those of `ssl.`, single ones replaced by `listeners.https.ssl.`.

Workers ask each other with the same ones, and so does `penstock connect`.
"""

import ssl
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from penstock.protocol.value import Value
from penstock.work.connect.config import ConfigError, ConfigKey, parse, with_prefix
from penstock.work.connect.rest import stores

PREFIX: Final = "listeners.https."
CLIENTS: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
KEYS: Final = (
    *stores.KEYS,
    ConfigKey("ssl.client.auth", "string", "none", "Whether clients show a certificate.", choices=tuple(CLIENTS)),
    ConfigKey("ssl.endpoint.identification.algorithm", default="https", documentation="Empty: names are not checked."),
)


class Tls(Value):
    listening: ssl.SSLContext
    asking: ssl.SSLContext


def tls_of(config: Mapping[str, str]) -> Tls:
    """A listener needs a key; ConfigError."""
    settings = _settings(config)
    key = stores.key_of(settings)
    if key is None:
        raise ConfigError({"ssl.keystore.location": ["ssl.keystore.location is missing: who listens needs a key"]})
    listening = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load(listening, key, stores.trusted_of(settings))
    listening.verify_mode = CLIENTS[settings["ssl.client.auth"]]
    return Tls(listening, asking_of(config))


def asking_of(config: Mapping[str, str]) -> ssl.SSLContext:
    """For clients, with a key or without; with a trust store only its certificates are trusted. ConfigError."""
    settings = _settings(config)
    trusted = stores.trusted_of(settings)
    asking = ssl.create_default_context() if trusted is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _load(asking, stores.key_of(settings), trusted)
    asking.check_hostname = bool(settings["ssl.endpoint.identification.algorithm"])
    return asking


def _settings(config: Mapping[str, str]) -> stores.Settings:
    return parse(KEYS, {**config, **with_prefix(config, PREFIX)})


def _load(context: ssl.SSLContext, key: stores.Key | None, trusted: str | None) -> None:
    try:
        if key is not None:
            _load_key(context, key)
    except (OSError, ValueError) as error:
        raise ConfigError({"ssl.keystore.location": [f"the key of ssl.keystore cannot be used: {error}"]}) from error
    try:
        if trusted is not None:
            context.load_verify_locations(cadata=trusted)
    except (OSError, ValueError) as error:
        raise ConfigError(
            {"ssl.truststore.location": [f"the certificates of ssl.truststore cannot be used: {error}"]}
        ) from error


def _load_key(context: ssl.SSLContext, key: stores.Key) -> None:
    """Python loads keys from files only."""
    with TemporaryDirectory() as folder:  # other users may not read it
        file = Path(folder, "key.pem")
        file.write_text(key.pem, encoding="ascii")
        context.load_cert_chain(file, password=key.password)
