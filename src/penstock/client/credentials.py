"""As whom a client logs in: by Kafka's keys, or by those of librdkafka.

    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="ada" password="…";

or `sasl.username` and `sasl.password` in place of the second.
"""

from collections.abc import Mapping
from typing import Final

from penstock.protocol.sasl.jaas import JaasError, credentials_of
from penstock.protocol.sasl.mechanism import GSSAPI, why_not_served
from penstock.protocol.secret import Secret
from penstock.protocol.value import Value

MECHANISM: Final = "sasl.mechanism"
JAAS: Final = "sasl.jaas.config"
USER: Final = "sasl.username"
PASSWORD: Final = "sasl.password"
CLASSES: Final = ("sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class")


class Credentials(Value):
    mechanism: str
    user: str
    password: Secret


def read_credentials(properties: Mapping[str, str]) -> Credentials:
    """ValueError names key and cure, and no password."""
    for key in CLASSES:
        if properties.get(key):
            raise ValueError(f"{key}: classes of Java's cannot be loaded; remove the key")
    mechanism = (properties.get(MECHANISM) or properties.get("sasl.mechanisms") or GSSAPI).strip()
    problem = why_not_served(mechanism)
    if problem is not None:
        is_default = MECHANISM not in properties and "sasl.mechanisms" not in properties
        raise ValueError(f"{MECHANISM} is not set, and {problem}" if is_default else f"{MECHANISM}: {problem}")
    if JAAS in properties:
        try:
            return Credentials(mechanism, *credentials_of(properties[JAAS], mechanism))
        except JaasError as error:
            raise ValueError(f"{JAAS}: {error}") from None
    user, password = properties.get(USER), properties.get(PASSWORD)
    if not user or password is None:
        raise ValueError(f"{mechanism} needs {JAAS}, or {USER} and {PASSWORD}")
    return Credentials(mechanism, user, Secret(password))
