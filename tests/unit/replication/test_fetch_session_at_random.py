"""A follower's fetch session beside a leader that remembers what it was told: it always knows just what is wanted."""

from random import Random

import pytest

from penstock.protocol.requests.following import Key, Position
from penstock.replication.fetch_session import LAST_EPOCH, NO_SESSION, Asked, FollowerSession

KEYS: list[Key] = [(b"t" * 16, number) for number in range(4)]


class Leader:
    """What it remembers of one session."""

    def __init__(self) -> None:
        self.session_id, self.epoch = 0, 0
        self.positions: dict[Key, Position] = {}

    def take(self, asked: Asked, session_id: int) -> None:
        if asked.epoch == 0:
            assert asked.session_id in (0, self.session_id), "the old one is closed"
            self.session_id, self.positions = session_id, dict(asked.positions)
            assert not asked.forgotten
        else:
            assert (asked.session_id, asked.epoch) == (self.session_id, self.epoch)
            for key, position in asked.positions:
                self.positions[key] = position
            for key in asked.forgotten:
                del self.positions[key]
        self.epoch = asked.epoch + 1 if asked.epoch < LAST_EPOCH else 1


@pytest.mark.parametrize("seed", range(8))
def test_a_leader_knows_what_is_wanted(seed: int) -> None:
    random, session, leader, wanted = Random(seed), FollowerSession(), Leader(), dict[Key, Position]()
    changed = set[Key]()
    for _ in range(400):
        key = random.choice(KEYS)
        match random.randrange(6):
            case 0 | 1:
                position = Position(random.randrange(3), 0, 3, 2)
                changed |= {key} if wanted.get(key) != position else set()
                wanted[key] = position
                session.want(key, position)
            case 2:
                wanted.pop(key, None)
                session.forget(key)
                assert session.told(key) is None
            case _:
                asked = session.next()
                session_id = random.choice((NO_SESSION, 7, 7, 7, 7)) if asked.epoch == 0 else leader.session_id
                assert not asked.epoch or {one for one, _ in asked.positions} <= changed
                changed.clear()
                leader.take(asked, session_id)
                assert leader.positions == wanted == {one: session.told(one) for one in wanted}
                if random.random() < 0.1:
                    leader = Leader()
                    session.reset()
                    leader.session_id = asked.session_id
                else:
                    session.answered(session_id)
                is_told = session_id != NO_SESSION and leader.positions
                assert {one: told for one in KEYS if (told := session.told(one))} == (
                    leader.positions if is_told else {}
                )
        assert len(session) == len(wanted)
