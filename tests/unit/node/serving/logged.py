"""What a listener logs of those whom it refuses."""

from __future__ import annotations

import logging

import pytest

from penstock.protocol.messages.api_versions import ApiVersionsRequest

VERSIONS_REQUEST = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")


def refusals(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
