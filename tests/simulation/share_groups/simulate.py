"""One run from a seed: faults for a while, then none, and all must be well."""

from __future__ import annotations

from uuid import UUID

from tests.simulation.share_groups.world import GROUP, World
from tests.unit.coordinator.group.share.bench import alteration

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from penstock.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

BEAT_MS = 1_000
REQUEST_TIMEOUT_MS = 2_500
HEALS_IN_MS = 60_000


class Client:
    """A member, with a process that may die, pause, and come back under another id."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.random = world, world.random
        self.number = number
        self.life = 0
        self.member_id = ""
        self.is_running = False
        self.epoch = 0
        self.names: tuple[str, ...] = ()
        self.owned: set[tuple[UUID, int]] = set()
        world.clients.append(self)

    def start(self) -> None:
        self.life += 1
        self.member_id = f"m{self.number}-{self.life}"
        self.is_running, self.epoch, self.owned = True, 0, set()
        self.choose_topics()
        self._beat(self.life)

    def choose_topics(self) -> None:
        self.names = tuple(self.random.sample(("a", "b", "c"), self.random.choice((1, 2, 2, 3))))
        self._says_all = True

    def die(self) -> None:
        self.is_running = False

    def leave(self) -> None:
        self.is_running = False
        request = ShareGroupHeartbeatRequest(group_id=GROUP, member_id=self.member_id, member_epoch=-1)
        self.world.beat(request, lambda _: None)

    def _beat(self, life: int) -> None:
        if not self.is_running or life != self.life:
            return
        says_all = self._says_all or self.epoch == 0
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            subscribed_topic_names=list(self.names) if says_all else None,
        )
        is_over = False

        def answered(response: ShareGroupHeartbeatResponse) -> None:
            nonlocal is_over
            if is_over or life != self.life or not self.is_running:
                return
            is_over = True
            self._hear(response, names=request.subscribed_topic_names)
            self.world.after(BEAT_MS, lambda: self._beat(life))

        def given_up() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                self._says_all = True
                self._beat(life)

        self.world.beat(request, answered)
        self.world.after(REQUEST_TIMEOUT_MS, given_up)

    def _hear(self, response: ShareGroupHeartbeatResponse, names: list[str] | None) -> None:
        error = response.error_code
        if error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND):
            self.epoch, self.owned = 0, set()
        elif error:
            self._says_all = True
        else:
            self.epoch = response.member_epoch
            if names is not None and tuple(names) == self.names:
                self._says_all = False
            if response.assignment is not None:
                self.owned = {
                    (topic.topic_id, index)
                    for topic in response.assignment.topic_partitions
                    for index in topic.partitions
                }


def simulate(seed: int) -> World:
    """Raises `ViolationError`."""
    world = World(seed)
    clients = [Client(world, number) for number in range(world.random.choice((1, 2, 4)))]
    for client in clients:
        world.after(world.random.randrange(1, 3_000), client.start)
    while world.has_faults:
        world.run(world.random.randrange(100, 1_000))
        _something_happens(world, clients)
    world.run(1)
    for client in clients:
        if not client.is_running and world.random.random() < 0.7:
            client.start()
    world.run(HEALS_IN_MS)
    world.check_healed()
    return world


def _something_happens(world: World, clients: list[Client]) -> None:
    what = world.random.randrange(30)
    if what < 2:
        if world.shard is not None:
            (world.kill, world.hand_over)[what]()
    elif what == 2:
        world.grow(world.random.choice("ab"), 1)
    elif what == 3:
        if "c" not in world.topics:
            world.grow("c", 2)
    elif what < 8:
        if world.is_administrated:
            _somebody_administrates(world, clients, what)
    elif what < 14:
        _something_is_read(world)
    else:
        _something_happens_to(world.random.choice(clients), what)


def _somebody_administrates(world: World, clients: list[Client], what: int) -> None:
    """Nothing that was read counts from then on: it may go at any time."""
    if what == 4:
        for client in clients:
            client.leave()
    elif what == 5:
        world.read.clear()
        name = world.random.choice("ab")
        request = DeleteShareGroupOffsetsRequest(
            group_id=GROUP, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name)]
        )
        world.ask("delete_share_offsets", request, lambda _: None)
        world.is_administrated_until_ms = world.now_ms + 20_000
    elif what == 6:
        world.read.clear()
        world.ask("delete_group", GROUP, lambda _: None)
        world.is_administrated_until_ms = world.now_ms + 20_000
    else:
        world.read.clear()
        world.ask("alter_share_offsets", alteration(a={0: world.random.randrange(100)}), lambda _: None)
        world.is_administrated_until_ms = world.now_ms + 20_000


def _something_is_read(world: World) -> None:
    """By a member that has a partition, as the committed log says; not while somebody administrates."""
    state = world.state()
    if state is None or world.now_ms < world.is_administrated_until_ms or state.partitions.deleting:
        return
    places = [
        (topic, index)
        for current in state.currents.values()
        for topic, indexes in current.assigned.items()
        for index in indexes
    ]
    for place in dict.fromkeys(places):
        world.deliver(place, world.read.get(place, 100) + world.random.randrange(1, 10))


def _something_happens_to(client: Client, what: int) -> None:
    if not client.is_running:
        if what < 22:
            client.start()
    elif what in (14, 15):
        client.die()
    elif what in (16, 17):
        client.leave()
    elif what in (18, 19):
        client.choose_topics()
