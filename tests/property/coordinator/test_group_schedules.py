from collections.abc import Callable
from typing import Any

import pytest
from tests.property.coordinator.group_world import LEGAL, World

from penstock.coordinator.group.classic.group import MAY_COME_FROM, ClassicGroup, GroupState
from penstock.coordinator.group.image import GroupImage
from penstock.coordinator.group.table import GroupTable
from penstock.coordinator.machine import Agenda, nothing_to_say
from penstock.coordinator.shards.groups import GroupShard
from penstock.protocol.errors import ErrorCode

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


def answer_at_once(patch: pytest.MonkeyPatch) -> None:
    append = Agenda.append

    def early(self: Agenda[Any], *asked: Any, token: object = None, answer: Any = nothing_to_say, **rest: Any) -> None:
        append(self, *asked, **rest)
        self.reply(token, answer(ErrorCode.NONE))

    patch.setattr(Agenda, "append", early)


def take_nothing_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupImage, "undoing", lambda self, record, before: record)


def take_back_the_first_one_first(patch: pytest.MonkeyPatch) -> None:
    written = Agenda.written

    def in_wrong_order(self: Agenda[Any], write_id: int, error: ErrorCode, now_ms: int, offset: int) -> None:
        if error is not ErrorCode.NONE:
            self._writes = dict(reversed(self._writes.items()))
        written(self, write_id, error, now_ms, offset)
        self._writes = dict(sorted(self._writes.items()))

    patch.setattr(Agenda, "written", in_wrong_order)


def fail_alone(patch: pytest.MonkeyPatch) -> None:
    """Later writes than the one that fails stay."""
    written = Agenda.written

    def only_this(self: Agenda[Any], write_id: int, error: ErrorCode, now_ms: int, offset: int) -> None:
        ids = [one for one in self._writes if error is not ErrorCode.NONE and one > write_id]
        later = {one: self._writes.pop(one) for one in ids}
        written(self, write_id, error, now_ms, offset)
        self._writes.update(later)

    patch.setattr(Agenda, "written", only_this)


def read_no_tombstones(patch: pytest.MonkeyPatch) -> None:
    read = GroupShard.read
    patch.setattr(GroupShard, "read", lambda self, key, value: read(self, key, value) if value is not None else None)


def show_what_is_decided(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupTable, "committed_offsets", lambda self, group_id: self.image.offsets(group_id))


def write_before_applying(patch: pytest.MonkeyPatch) -> None:
    """What is decided is applied when it is committed."""
    append, written = Agenda.append, Agenda.written

    def not_yet(self: Agenda[Any], records: list[Any], *asked: Any, **rest: Any) -> None:
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(GroupImage, "apply", lambda self, record: None)
            append(self, records, *asked, **rest)

    def at_last(self: Agenda[Any], write_id: int, error: ErrorCode, now_ms: int, offset: int) -> None:
        for record in self._writes[write_id].draft.records if error is ErrorCode.NONE else ():
            self.image.apply(record)
        written(self, write_id, error, now_ms, offset)

    patch.setattr(Agenda, "append", not_yet)
    patch.setattr(Agenda, "written", at_last)


@pytest.mark.parametrize(
    "plant",
    [
        answer_at_once,
        take_nothing_back,
        take_back_the_first_one_first,
        fail_alone,
        read_no_tombstones,
        show_what_is_decided,
        write_before_applying,
    ],
)
def test_planted_bugs_are_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert any(fails(seed) for seed in SEEDS)


def fails(seed: int) -> bool:
    try:
        world = World(seed)
        for _ in range(STEPS):
            world.step()
            world.check()
    except (AssertionError, LookupError):
        return True
    return False
