import pytest
from tests.property.coordinator.group_world import LEGAL, World

from penstock.coordinator.group.classic.group import MAY_COME_FROM, ClassicGroup, GroupState

SEEDS = range(150)
STEPS = 250


@pytest.fixture
def transitions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Every change of state of any group, as it happens."""
    seen: list[tuple[str, str]] = []
    original = ClassicGroup.transition_to

    def watched(group: ClassicGroup, state: GroupState, now_ms: int) -> None:
        seen.append((group.state.value, state.value))
        original(group, state, now_ms)

    monkeypatch.setattr(ClassicGroup, "transition_to", watched)
    return seen


@pytest.mark.parametrize("seed", SEEDS)
def test_invariants_hold_and_good_clients_end_up_stable(seed: int, transitions: list[tuple[str, str]]) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
        world.check()
    world.heal()
    assert set(transitions) <= LEGAL
    stable = {group.group_id: group for group in world.shard.classic_groups() if group.members}
    for client in world.clients:
        group = stable[client.group]
        assert group.state is GroupState.STABLE
        assert client.member_id in group.members
        assert client.generation == group.generation
        assert client.wants == "heartbeat"
    for group in stable.values():
        names = [client.name for client in world.clients if client.group == group.group_id]
        assert sorted(member.client_id for member in group.members.values()) == sorted(names)


@pytest.mark.parametrize("seed", SEEDS[:30])
def test_whoever_waits_is_answered_when_the_partition_moves(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS // 2):
        world.step()
    world.carry_out(world.shard.unload(world.now_ms))
    assert world.tokens == {}


def test_random_schedules_visit_every_legal_transition(transitions: list[tuple[str, str]]) -> None:
    for seed in range(10):
        world = World(seed)
        for _ in range(STEPS):
            world.step()
        world.carry_out(world.shard.unload(world.now_ms))
    assert set(transitions) == LEGAL


def test_the_matrix_is_kafkas() -> None:
    table = {(before.value, after.value) for after, befores in MAY_COME_FROM.items() for before in befores}
    assert table == LEGAL
