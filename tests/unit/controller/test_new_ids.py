"""Ids that the controller draws are new, and those that people type do not begin as an option does."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from uuid import UUID

import pytest

from penstock.controller.config_rules import DefinedConfigs
from penstock.controller.decision import ControllerSettings, ControllerState
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import TopicRecord
from penstock.metadata.security_records import AccessControlEntryRecord, DelegationTokenRecord
from penstock.protocol.uuids import uuid_to_text

WITH_A_DASH, FIRST, SECOND = ((0xF8 << 120), 1 << 64, 2 << 64)


class Numbers(Random):
    """Those in place of chance."""

    def __init__(self, *numbers: int) -> None:
        super().__init__(0)
        self.left = list(numbers)

    def getrandbits(self, k: int, /) -> int:
        assert k == 128
        return self.left.pop(0)


def drawn(number: int) -> UUID:
    return UUID(int=number, version=4)


@pytest.mark.parametrize(
    ("new_id", "expected"),
    [
        (ControllerState.new_rule_id, drawn(WITH_A_DASH)),
        (ControllerState.new_topic_id, drawn(SECOND)),
        (ControllerState.new_token_id, uuid_to_text(drawn(SECOND))),
    ],
)
def test_ids(new_id: Callable[[ControllerState], UUID | str], expected: UUID | str) -> None:
    image = ClusterImage()
    image.apply(TopicRecord(name="t", topic_id=drawn(FIRST)))
    image.apply(DelegationTokenRecord(token_id=uuid_to_text(drawn(FIRST)), owner="User:ada", requester="User:ada"))
    image.apply(
        AccessControlEntryRecord(
            id=drawn(FIRST), resource_type=2, resource_name="t", pattern_type=3, principal="User:ada", host="*",
            operation=3, permission_type=3,
        )
    )  # fmt: skip
    chance = Numbers(FIRST, WITH_A_DASH, SECOND)
    assert uuid_to_text(drawn(WITH_A_DASH)).startswith("-")
    assert new_id(ControllerState(image, ControllerSettings(rules=DefinedConfigs({})), chance)) == expected
