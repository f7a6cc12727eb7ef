"""Where clients are told to find this node: what `advertised.listeners` says, with the ports that were really bound.

A host that stands for every interface cannot be advertised, so this machine's name stands in for it. `localhost` is
advertised as it is written; the embedded node writes 127.0.0.1, as some clients resolve `localhost` to ::1 first.
"""

import socket
from collections.abc import Sequence

from penstock.metadata.configs.listeners import Listener
from penstock.metadata.image import Endpoint as AdvertisedEndpoint
from penstock.node.serving.server import Endpoint

EVERY_INTERFACE = ("", "0.0.0.0", "::")
SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""The numbers that Kafka's records have for security protocols."""


def advertised_endpoints(advertised: Sequence[Listener], bound: Sequence[Endpoint]) -> list[AdvertisedEndpoint]:
    """The endpoints to register, one per advertised listener."""
    ports = {endpoint.listener: endpoint.port for endpoint in bound}
    return [
        AdvertisedEndpoint(
            listener.name,
            socket.getfqdn() if listener.host in EVERY_INTERFACE else listener.host,
            listener.port or ports[listener.name],
            SECURITY_PROTOCOLS[listener.security_protocol],
        )
        for listener in advertised
    ]
