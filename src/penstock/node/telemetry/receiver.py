"""What a broker has to ask clients for metrics, and to take what they push; a broker without one serves neither API."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final
from uuid import UUID

from penstock.metadata.image import ClusterImage
from penstock.node.serving.session import Session
from penstock.node.telemetry.clients import Clients
from penstock.node.telemetry.otlp import Point, read_points
from penstock.node.telemetry.received import MOST_OF_A_CLIENT, Received, as_shown
from penstock.node.telemetry.subscriptions import LONGEST, Attributes, Subscription, Wanted, subscriptions, wanted_of
from penstock.protocol.compression import Compression, decompress

CONNECTIONS_KEPT: Final = 20_000
"""Of so many connections it is known which software the client named."""
MOST_KEPT: Final = LONGEST + 1
"""Characters of what a client says of itself: no pattern matches so many."""
ACCEPTED: Final = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)
"""The first is what Kafka's clients take."""


class TelemetryReceiver:
    def __init__(self, image: ClusterImage, max_bytes: int) -> None:
        """`max_bytes`: of a push, as it comes and unpacked."""
        self.max_bytes = max_bytes
        self.clients = Clients(self._wanted)
        self.received = Received()
        self.pushes = self.unreadable = 0
        self._image = image
        self._subscriptions: tuple[Subscription, ...] = ()
        self._software: OrderedDict[int, tuple[str, str]] = OrderedDict()

    def named_software(self, session: Session, name: str, version: str) -> None:
        """A client has said what it is."""
        self._software[session.connection_id] = name[:MOST_KEPT], version[:MOST_KEPT]
        if len(self._software) > CONNECTIONS_KEPT:
            self._software.popitem(last=False)

    def attributes(self, session: Session, client_id: str | None, client_instance_id: UUID) -> Attributes:
        name, version = self._software.get(session.connection_id, ("", ""))
        return Attributes(
            client_id=(client_id or "")[:MOST_KEPT],
            client_instance_id=client_instance_id,
            client_software_name=name,
            client_software_version=version,
            client_source_address=session.client_host,
            client_source_port=str(session.port),
        )

    def look_at_subscriptions(self) -> None:
        """They are few; a change of them makes all clients as good as new."""
        found = subscriptions(self._image)
        if found != self._subscriptions:
            self._subscriptions = found
            self.clients.subscriptions_changed()

    def _wanted(self, client: Attributes) -> Wanted:
        return wanted_of(client, self._subscriptions)

    def unpacked(self, codec: int, data: bytes) -> list[Point]:
        """For a thread, as they are shown. Raises DecompressionLimitError above `max_bytes`, DecodeError for what is no
        metrics.
        """
        return as_shown(read_points(bytes(decompress(Compression(codec), data, self.max_bytes)), MOST_OF_A_CLIENT))
