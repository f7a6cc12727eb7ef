"""UpdateFeatures: the level that the whole cluster runs a feature at goes up, or down where nothing is lost (KIP-584).

A level must be one that every registered broker and controller runs at, and other features must have the levels that it
needs. All changes of a request are made, or none. `kraft.version` stands in the quorum's own records: it only goes up,
and whether it can the quorum says.
"""

from enum import IntEnum
from typing import Final

from penstock.controller.decision import ControllerState, Decision, QuorumUpgrade
from penstock.controller.delays import topics_that_wait
from penstock.controller.min_isr import made_explicit
from penstock.controller.registrations import runs_at
from penstock.metadata.brokers import Feature
from penstock.metadata.features import (
    DELAY_LEVEL,
    DELAY_VERSION,
    ELIGIBLE_LEADER_REPLICAS,
    KAFKAS_FEATURES,
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    loses_metadata,
)
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import FeatureLevelRecord, MetadataRecord
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

MAX_UPDATES: Final = 1_000
"""Each is held against what every node runs at; there are about a dozen features."""


class UpgradeType(IntEnum):
    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def decide_update_features(
    state: ControllerState, request: UpdateFeaturesRequest, now_ms: int
) -> Decision[UpdateFeaturesResponse]:
    """With `validate_only` the reply is the same, but nothing changes."""
    records: list[MetadataRecord] = []
    upgrade: QuorumUpgrade | None = None
    named: dict[str, int] = {}
    try:
        if len(request.feature_updates) > MAX_UPDATES:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"One request may update at most {MAX_UPDATES} features")
        for update in request.feature_updates:
            if update.feature in named:
                raise _refused(update, "the request names it twice")
            named[update.feature] = update.max_version_level
        present = state.image.features | {KRAFT_VERSION: state.quorum.kraft_version}
        wanted = {METADATA_VERSION: state.image.metadata_version} | present | named
        for update in request.feature_updates:
            changes = _updated(state.image, update, present.get(update.feature, 0))
            _check_needs(update, wanted)
            if changes and update.feature == KRAFT_VERSION:
                changes, upgrade = [], QuorumUpgrade(update.max_version_level, request.validate_only)
            if changes and update.feature == ELIGIBLE_LEADER_REPLICAS and update.max_version_level:
                records += made_explicit(state)
            records += changes
    except KafkaError as error:
        return Decision([], answer(request, error.code, error.message))
    return Decision([] if request.validate_only else records, answer(request, ErrorCode.NONE, None), upgrade)


def answer(request: UpdateFeaturesRequest, code: ErrorCode, message: str | None) -> UpdateFeaturesResponse:
    """Before version 2 the outcome stands beside each feature, too."""
    return UpdateFeaturesResponse(
        error_code=code,
        error_message=message,
        results=[
            UpdatableFeatureResult(feature=update.feature, error_code=code, error_message=message)
            for update in request.feature_updates
        ],
    )


def _updated(image: ClusterImage, update: FeatureUpdateKey, present: int) -> list[MetadataRecord]:
    name, level = update.feature, update.max_version_level
    upgrade_type = UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
    if upgrade_type not in (UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE):
        raise _refused(update, f"{update.upgrade_type} is no type of upgrade")
    _check_support(image, update)
    _check_delays(image, update)
    if level < present and upgrade_type == UpgradeType.UPGRADE:
        raise _refused(update, f"the cluster is at {present}, and only a downgrade could go back")
    if level > present and upgrade_type != UpgradeType.UPGRADE and not update.allow_downgrade:
        raise _refused(update, f"the cluster is at {present}, so this is no downgrade")
    if name == METADATA_VERSION and loses_metadata(present, level):
        raise _refused(update, f"the way back from {present} may lose metadata, and there is no tool for that")
    return [] if level == present else [FeatureLevelRecord(name=name, feature_level=level)]


def _check_support(image: ClusterImage, update: FeatureUpdateKey) -> None:
    for node, features in [("this controller", SUPPORTED_FEATURES), *runs_at(image)]:
        supported = features.get(update.feature, Feature(0, 0))
        if not supported.lowest <= update.max_version_level <= supported.newest:
            levels = f"at levels {supported.lowest} to {supported.newest}" if supported.newest else "without it"
            raise _refused(update, f"{node} runs {levels}")


def _check_delays(image: ClusterImage, update: FeatureUpdateKey) -> None:
    if update.feature == DELAY_VERSION and update.max_version_level < DELAY_LEVEL:
        topic = next(topics_that_wait(image), None)
        if topic is not None:
            raise _refused(update, f"records may wait in the topic {topic}; delete it before")


def _check_needs(update: FeatureUpdateKey, levels: dict[str, int]) -> None:
    if update.feature == METADATA_VERSION or not update.max_version_level:  # what is not there needs nothing
        return
    if update.feature not in KAFKAS_FEATURES:  # it is ours
        return
    for other, needed in KAFKAS_FEATURES[update.feature][update.max_version_level].needs.items():
        if levels.get(other, 0) < needed:
            raise _refused(update, f"it needs level {needed} of {other}, which is at {levels.get(other, 0)}")


def _refused(update: FeatureUpdateKey, reason: str) -> KafkaError:
    message = f"The feature {update.feature} cannot be set to level {update.max_version_level}: {reason}"
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)
