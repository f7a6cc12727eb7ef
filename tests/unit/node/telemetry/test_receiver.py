"""What a broker remembers of clients that say who they are."""

from __future__ import annotations

from uuid import UUID

from penstock.metadata.image import ClusterImage
from penstock.node.serving.session import Session
from penstock.node.telemetry.receiver import MOST_KEPT, TelemetryReceiver


def test_words_without_end_are_cut() -> None:
    """A string of ApiVersions may be as long as a request, and is kept when its connection has gone."""
    receiver, session = TelemetryReceiver(ClusterImage(), 1024), Session("10.0.0.1", 1, "PLAINTEXT", 1)
    receiver.named_software(session, "x" * 1_000_000, "1" * 1_000_000)
    found = receiver.attributes(session, "c" * 30_000, UUID(int=1))
    for text in (found.client_software_name, found.client_software_version, found.client_id):
        assert len(text) == MOST_KEPT
