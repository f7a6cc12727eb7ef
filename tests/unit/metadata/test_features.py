"""Levels of features at their edges."""

import pytest

from penstock.metadata.brokers import Feature
from penstock.metadata.features import (
    ELIGIBLE_LEADER_REPLICAS,
    KRAFT_VERSION,
    LEVELS_WITH_NEW_RECORDS,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    beyond,
    default_level,
    first_levels,
    loses_metadata,
    metadata_version_named,
    shown_level,
)


@pytest.mark.parametrize("level", LEVELS_WITH_NEW_RECORDS)
def test_a_downgrade_below_a_level_with_new_records_loses_them(level: int) -> None:
    assert loses_metadata(level, level - 1)
    assert not loses_metadata(level, level)
    assert loses_metadata(level + 1, level - 1)
    assert not loses_metadata(level - 1, level - 1)


def test_levels_beyond_what_a_node_supports() -> None:
    supported = {"f": Feature(2, 4)}
    assert {level: bool(beyond({"f": level}, supported)) for level in range(1, 6)} == {
        1: True,
        2: False,
        3: False,
        4: False,
        5: True,
    }
    assert beyond({"other": 1, "f": 3, "none": 0}, supported) == {"other": Feature(0, 0)}


@pytest.mark.parametrize(
    ("text", "level"), [("4.4-IV0", 31), ("4.4", 33), ("4.0", 25), ("3.3-IV3", 7), ("4", None), ("4.4-IV9", None)]
)
def test_a_level_by_its_name_and_a_release_by_its_last(text: str, level: int | None) -> None:
    assert metadata_version_named(text) == level


@pytest.mark.parametrize(
    ("feature", "levels"),
    [
        (KRAFT_VERSION, {7: 0, 20: 0, 21: 1, 33: 1}),
        ("transaction.version", {7: 0, 23: 0, 24: 2}),
        ("group.version", {7: 0, 21: 0, 22: 1}),
        (ELIGIBLE_LEADER_REPLICAS, {7: 0, 25: 0, 26: 1}),
        ("share.version", {7: 0, 27: 0, 28: 1, 30: 1, 31: 2}),
        ("streams.version", {7: 0, 28: 0, 29: 1}),
    ],
)
def test_levels_of_new_clusters(feature: str, levels: dict[int, int]) -> None:
    assert {at: default_level(feature, at) for at in levels} == levels
    assert default_level(feature, 33) == max(levels.values())


def test_how_levels_are_shown() -> None:
    assert [shown_level(level) for level in (6, 7, 33, 34)] == ["6", "7 (3.3-IV3)", "33 (4.4-IV2)", "34"]
    assert beyond({METADATA_VERSION: 34, KRAFT_VERSION: 2}).keys() == {METADATA_VERSION, KRAFT_VERSION}


def test_what_this_release_supports() -> None:
    assert {name: (it.lowest, it.newest) for name, it in SUPPORTED_FEATURES.items()} == {
        METADATA_VERSION: (7, 33),
        KRAFT_VERSION: (0, 1),
        ELIGIBLE_LEADER_REPLICAS: (0, 1),
        "transaction.version": (0, 2),
        "group.version": (0, 1),
        "share.version": (0, 2),
        "streams.version": (0, 1),
        "penstock.delay.version": (0, 1),
    }


@pytest.mark.parametrize(
    ("metadata_version", "others"),
    [
        (7, {}),
        (24, {"transaction.version": 2, "group.version": 1}),
        (
            33,
            {
                "transaction.version": 2,
                "group.version": 1,
                ELIGIBLE_LEADER_REPLICAS: 1,
                "share.version": 2,
                "streams.version": 1,
            },
        ),
    ],
)
def test_what_a_new_cluster_begins_with(metadata_version: int, others: dict[str, int]) -> None:
    assert first_levels(metadata_version) == {METADATA_VERSION: metadata_version} | others
