"""Every version of an API that is defined is served: a client takes the newest that both know."""

import pytest

from penstock.node.serving.handler import BROKER_HANDLERS, CONTROLLER_HANDLERS, load_handlers
from penstock.protocol.requests.api import ApiKey, api_of

FEWER = {ApiKey.INIT_PRODUCER_ID: (0, 5)}
"""What a node serves at first: version 6 is there where clients may prepare transactions."""


@pytest.mark.parametrize("handlers", [BROKER_HANDLERS, CONTROLLER_HANDLERS])
def test_all_versions_are_served(handlers: str) -> None:
    served = {key: (handler.lowest, handler.newest) for key, handler in load_handlers(handlers).items()}
    defined = {key: (api_of(key).versions[0], api_of(key).versions[-1]) for key in served}
    fewer = {key: versions for key, versions in FEWER.items() if key in served}
    assert served == defined | fewer
