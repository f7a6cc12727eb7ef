"""Limits that were set for moves end with these, and no others (KIP-73)."""

from tests.unit.controller.cluster import assigned, carry_out, in_sync, tick
from tests.unit.controller.test_alter_partition import answer
from tests.unit.controller.test_reassignments import cluster, move

from penstock.controller.controller import Controller
from penstock.controller.upkeep import LISTS, RATES, UNTIL_MOVED
from penstock.metadata.image import ResourceType
from penstock.metadata.records import ConfigRecord
from penstock.protocol.errors import ErrorCode

UNUSED_MS = 10_000
LIMITS = dict.fromkeys(RATES, "5000")


def limit(controller: Controller, *, until_moved: bool = True) -> None:
    settings = [(ResourceType.BROKER, "1", key, value) for key, value in LIMITS.items()]
    settings += [(ResourceType.TOPIC, "flights", key, "0:1,0:2") for key in LISTS]
    settings += [(ResourceType.TOPIC, "trains", key, "*") for key in LISTS]
    if until_moved:
        settings.append((ResourceType.BROKER, "", UNTIL_MOVED, "true"))
    controller.apply(
        [
            ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
            for kind, name, key, value in settings
        ]
    )


def limited() -> Controller:
    """Partition 0 of flights is on its way to broker 3."""
    controller = cluster(1, 2)
    carry_out(controller, assigned("trains", [1]))
    limit(controller)
    assert move(controller, [3, 2]) is ErrorCode.NONE
    return controller


def of_broker(controller: Controller) -> dict[str, str]:
    return dict(controller.image.config_of(ResourceType.BROKER, "1"))


def moves_end(controller: Controller) -> None:
    answer(controller, in_sync(controller, 1, [1, 2, 3]))
    assert not controller.image.index.reassigning


def beats(controller: Controller, now_ms: int) -> None:
    for broker_id in controller.image.brokers:
        controller.state.heartbeats.heard(broker_id, controller.image.brokers[broker_id].epoch, 1_000, now_ms)
    tick(controller, now_ms)


def test_limits_end_a_while_after_the_last_move() -> None:
    controller = limited()
    beats(controller, 1_000)
    assert of_broker(controller) == LIMITS
    moves_end(controller)
    beats(controller, 2_000)
    beats(controller, 2_000 + UNUSED_MS - 1)
    assert of_broker(controller) == LIMITS, "the next batch may begin"
    beats(controller, 2_000 + UNUSED_MS)
    assert of_broker(controller) == {}
    assert not controller.image.config_of(ResourceType.TOPIC, "flights")
    assert set(controller.image.config_of(ResourceType.TOPIC, "trains")) == set(LISTS), "set by hand"
    assert UNTIL_MOVED not in controller.image.config_of(ResourceType.BROKER, "")


def test_another_batch_begins_the_time_anew() -> None:
    controller = limited()
    moves_end(controller)
    beats(controller, 2_000)
    assert move(controller, [1, 2]) is ErrorCode.NONE
    beats(controller, 2_000 + 2 * UNUSED_MS)
    assert of_broker(controller) == LIMITS
    answer(controller, in_sync(controller, 3, [3, 2, 1]))
    beats(controller, 2_000 + 3 * UNUSED_MS)
    assert of_broker(controller) == LIMITS


def test_limits_of_a_client_that_was_killed_before_it_moved_anything_end() -> None:
    controller = cluster(1, 2)
    limit(controller)
    beats(controller, 1_000)
    beats(controller, 1_000 + UNUSED_MS)
    assert of_broker(controller) == {}


def test_limits_that_are_set_by_hand_stay() -> None:
    controller = cluster(1, 2)
    limit(controller, until_moved=False)
    beats(controller, 1_000)
    beats(controller, 1_000 + 5 * UNUSED_MS)
    assert of_broker(controller) == LIMITS
