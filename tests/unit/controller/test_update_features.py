"""UpdateFeatures: the level of metadata.version."""

from typing import Any
from uuid import UUID

import pytest
from tests.unit.controller.cluster import active_controller

from penstock.controller.controller import Controller
from penstock.controller.decision import QuorumUpgrade
from penstock.metadata.records import (
    FeatureLevelRecord,
    MetadataRecord,
    NodeFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from penstock.raft.voters import Quorum

UPGRADE, SAFE, UNSAFE = 1, 2, 3
NAME = "metadata.version"


def at_level(level: int, *nodes: MetadataRecord) -> Controller:
    controller = active_controller()
    feature: dict[str, Any] = {"name": NAME, "min_supported_version": 7, "max_supported_version": 25}
    known: list[MetadataRecord] = [
        FeatureLevelRecord(name=NAME, feature_level=level),
        RegisterBrokerRecord(broker_id=1, features=[NodeFeature(**feature)]),
        RegisterControllerRecord(controller_id=1, features=[NodeFeature(**feature)]),
        *nodes,
    ]
    controller.apply(known)
    return controller


def update(level: int, upgrade_type: int = UPGRADE, name: str = NAME, **fields: Any) -> FeatureUpdateKey:
    return FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type, **fields)


@pytest.mark.parametrize(
    ("present", "change", "is_allowed"),
    [
        (21, update(25), True),
        (25, update(25), True),
        (25, update(24, SAFE), True),
        (25, update(23, SAFE), True),
        (25, update(22, SAFE), False),
        (25, update(22, UNSAFE), False),
        (25, update(24), False),
        (24, update(25, SAFE), False),
        (25, update(24, allow_downgrade=True), True),
        (24, update(25, allow_downgrade=True), True),
        (25, update(26), False),
        (25, update(6, SAFE), False),
        (25, update(0, SAFE), False),
        (25, update(24, 0), False),
        (25, update(24, 9), False),
        (25, update(1, name="nobody.knows.it"), False),
        (25, update(2, name="kraft.version"), False),
        (25, update(1, name="group.version"), False),
    ],
)
def test_levels_go_up_and_down_where_nothing_is_lost(present: int, change: FeatureUpdateKey, is_allowed: bool) -> None:
    controller = at_level(present)
    decision = controller.decide(UpdateFeaturesRequest(feature_updates=[change]), 0)
    code = ErrorCode.NONE if is_allowed else ErrorCode.INVALID_UPDATE_VERSION
    assert decision.reply.error_code == decision.reply.results[0].error_code == code
    assert bool(decision.reply.error_message) is not is_allowed
    controller.apply(decision.records)
    assert controller.image.features == {NAME: change.max_version_level if is_allowed else present}


@pytest.mark.parametrize(
    "node",
    [
        RegisterBrokerRecord(broker_id=2, incarnation_id=UUID(int=2)),
        RegisterControllerRecord(
            controller_id=9,
            features=[NodeFeature(name=NAME, min_supported_version=7, max_supported_version=24)],
        ),
    ],
)
def test_every_node_must_run_at_the_new_level(node: MetadataRecord) -> None:
    controller = at_level(24, node)
    reply = controller.decide(UpdateFeaturesRequest(feature_updates=[update(25)]), 0).reply
    assert reply.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "broker 2" in reply.error_message or "controller 9" in reply.error_message


def test_all_changes_of_a_request_are_made_or_none() -> None:
    controller = at_level(21)
    for updates in ([update(25), update(24)], [update(25), update(1, name="group.version")]):
        decision = controller.decide(UpdateFeaturesRequest(feature_updates=updates), 0)
        assert decision.records == []
        assert {result.error_code for result in decision.reply.results} == {ErrorCode.INVALID_UPDATE_VERSION}


def test_a_change_can_be_tried() -> None:
    request = UpdateFeaturesRequest(feature_updates=[update(25)], validate_only=True)
    decision = at_level(21).decide(request, 0)
    assert (decision.records, decision.reply.error_code) == ([], ErrorCode.NONE)


def test_level_0_is_where_an_unknown_feature_is() -> None:
    request = UpdateFeaturesRequest(feature_updates=[update(0, name="nobody.knows.it")])
    decision = at_level(25).decide(request, 0)
    assert (decision.records, decision.reply.error_code) == ([], ErrorCode.NONE)


@pytest.mark.parametrize("validate_only", [False, True])
def test_the_level_of_the_quorum_is_for_its_leader_to_raise(*, validate_only: bool) -> None:
    """It stands in no record of metadata. That no node has told what it supports would keep it back."""
    controller = active_controller()
    controller.state.quorum = Quorum()
    request = UpdateFeaturesRequest(
        feature_updates=[update(1, name="kraft.version"), update(25)], validate_only=validate_only
    )
    decision = controller.decide(request, 0)
    assert decision.reply.error_code == ErrorCode.NONE
    assert decision.upgrade == QuorumUpgrade(1, validate_only)
    assert decision.records == ([] if validate_only else [FeatureLevelRecord(name=NAME, feature_level=25)])
    controller.state.quorum = Quorum(kraft_version=1)
    again = controller.decide(request, 0)
    assert (again.upgrade, again.reply.error_code) == (None, ErrorCode.NONE)
    lower = UpdateFeaturesRequest(feature_updates=[update(0, SAFE, name="kraft.version")])
    assert controller.decide(lower, 0).upgrade == QuorumUpgrade(0, validate_only=False), "it says why it cannot be"
    controller = at_level(25)
    reply = controller.decide(request, 0).reply
    assert "broker 1 runs without it" in reply.error_message
