"""Descriptions of configurations: what is asked about one resource twice, and when others have their turn."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.node.api.configs import described as module
from penstock.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

TOPIC = 2


def asked(*resources: tuple[str, list[str] | None]) -> list[DescribeConfigsResource]:
    return [
        DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=keys)
        for name, keys in resources
    ]


def driven(steps: Any) -> tuple[Any, int]:
    """What comes of them, and how often others had their turn."""
    turns = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, turns
        turns += 1


@pytest.mark.parametrize(
    ("resources", "wanted"),
    [
        ([("a", ["x", "y"]), ("b", ["z"])], {"a": ["x", "y"], "b": ["z"]}),
        ([("a", ["x"]), ("a", ["y", "x"])], {"a": ["x", "y"]}),
        ([("a", ["x"]), ("a", None), ("a", ["y"]), ("b", ["z"])], {"a": [], "b": ["z"]}),
        ([("a", []), ("a", ["x"]), ("b", ["z"])], {"a": [], "b": ["z"]}),
        ([("a", None), ("b", None)], {"a": [], "b": []}),
    ],
)
def test_what_is_asked_of_one_is_put_together(resources: Any, wanted: dict[str, list[str]]) -> None:
    found, _ = driven(module._each_once(asked(*resources)))
    assert {name: list(keys) for (_, name), (_, keys) in found.items()} == wanted


@pytest.mark.parametrize("each", [1, 3])
def test_after_so_many_names_others_have_their_turn(monkeypatch: pytest.MonkeyPatch, each: int) -> None:
    """A resource counts, and so does each key."""
    monkeypatch.setattr(module, "NAMES_A_STEP", 4)
    resources = [(f"t{number}", [f"k{key}" for key in range(each)]) for number in range(8)]
    _, turns = driven(module._each_once(asked(*resources)))
    assert turns == 8 * (1 + each) // 4


@pytest.mark.parametrize(
    ("kinds", "keys", "turns"),
    [
        ([0] * 4, 0, 1 + 1),
        ([0] * 9, 0, 1 + 2),
        ([0, 1, 0, 2, 0], 0, 3),
        ([0, 1, 2], 0, 3),
        ([0, 0], module.MOST_KEYS, 1),
        ([0, 0], module.MOST_KEYS + 1, 2),
    ],
)
def test_after_what_is_new_or_large_others_have_their_turn(
    monkeypatch: pytest.MonkeyPatch, kinds: list[int], keys: int, turns: int
) -> None:
    monkeypatch.setattr(module, "RESOURCES_A_STEP", 4)

    def result(node: object, request: object, resource: Any, wanted: Any, before: dict[Any, Any]) -> str:
        assert len(wanted) == keys
        if keys <= module.MOST_KEYS:
            before[kinds[int(resource.resource_name)]] = "a list"
        return str(resource.resource_name)

    monkeypatch.setattr(module, "_result", result)
    names = [f"k{number}" for number in range(keys)]

    def each_once(resources: Any) -> Any:
        return {one.resource_name: (one, dict.fromkeys(names)) for one in resources}
        yield

    monkeypatch.setattr(module, "_each_once", each_once)
    request = DescribeConfigsRequest(resources=asked(*((str(number), None) for number in range(len(kinds)))))
    node: Any = None
    answer, had = driven(module.described(node, request))
    assert answer.results == [str(number) for number in range(len(kinds))]
    assert had == turns
