"""TLS of the REST interface by Connect's keys: those of `ssl.`, of which `listeners.https.ssl.` changes single ones.

Stores are PEM: the key and its certificates in one file. Workers ask each other with the same ones.
"""

import ssl
from collections.abc import Mapping
from typing import Any, Final

from penstock.protocol.value import Value
from penstock.work.connect.config import ConfigError, ConfigKey, parse, with_prefix

PREFIX: Final = "listeners.https."
PEM: Final = "PEM"
CLIENTS: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
KEYS: Final = (
    ConfigKey("ssl.keystore.type", "string", PEM, "The format of the file with the key.", choices=(PEM,)),
    ConfigKey("ssl.keystore.location", required=True, documentation="the file with the key and its certificates"),
    ConfigKey("ssl.key.password", "password", documentation="The password of the key."),
    ConfigKey("ssl.truststore.type", "string", PEM, "The format of the file of those who are trusted.", choices=(PEM,)),
    ConfigKey("ssl.truststore.location", documentation="The certificates of those who are trusted."),
    ConfigKey("ssl.client.auth", "string", "none", "Whether clients show a certificate.", choices=tuple(CLIENTS)),
    ConfigKey("ssl.endpoint.identification.algorithm", default="https", documentation="Empty: names are not checked."),
)


class Tls(Value):
    """How a worker listens, and how it asks other workers."""

    listening: ssl.SSLContext
    asking: ssl.SSLContext


def tls_of(config: Mapping[str, str]) -> Tls:
    """ConfigError with what cannot be used."""
    settings = parse(KEYS, {**config, **with_prefix(config, PREFIX)})
    listening = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    asking = ssl.create_default_context()
    for context in (listening, asking):
        _load(context, settings)
    listening.verify_mode = CLIENTS[settings["ssl.client.auth"]]
    asking.check_hostname = bool(settings["ssl.endpoint.identification.algorithm"])
    return Tls(listening, asking)


def _load(context: ssl.SSLContext, settings: Mapping[str, Any]) -> None:
    key = "ssl.keystore.location"
    try:
        context.load_cert_chain(settings[key], password=settings["ssl.key.password"] or "")
        key = "ssl.truststore.location"
        if settings[key]:
            context.load_verify_locations(settings[key])
    except (OSError, ValueError) as error:
        raise ConfigError({key: [f"{key}={settings[key]} cannot be used: {error}"]}) from error
