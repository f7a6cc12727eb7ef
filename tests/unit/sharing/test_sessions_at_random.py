"""Share sessions beside a plainer model of them: a list that is looked through for each question."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any
from uuid import UUID

import pytest

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.sharing import sessions as module
from penstock.sharing.sessions import FINAL_EPOCH, SessionKey, ShareSession, ShareSessions, TopicPartition

KEYS = [SessionKey(group, member) for group in ("g", "h") for member in ("ann", "bob", "cid")]
PLACES = [TopicPartition(UUID(int=1), number) for number in range(4)]
MOST_PARTITIONS = 9


class Model:
    def __init__(self, most: int) -> None:
        self.most = most
        self.open: list[ShareSession] = []

    def find(self, key: SessionKey) -> ShareSession | None:
        return next((it for it in self.open if it.key == key), None)

    def told(self) -> list[object]:
        return [
            len(self.open),
            sum(len(it.partitions) for it in self.open),
            [key for key in KEYS if self.find(key)],
            [sorted(it.key for it in self.open if it.connection_id == number) for number in range(3)],
            [key for key in KEYS if any(it.key == key and it.connection_id == 1 for it in self.open)],
            [group for group in "ghi" if any(it.key.group_id == group for it in self.open)],
        ]

    def refuses(self, key: SessionKey, owner: str) -> str:
        others = [it for it in self.open if it.key != key]
        of_owner = [it for it in others if it.owner == owner]
        if len(others) >= self.most:
            return f"{self.most} sessions are open (group.share.max.share.sessions)"
        most = max(self.most // 2, 1)
        if len(of_owner) >= most:
            return f"{owner} has {most} sessions: half of group.share.max.share.sessions, no client has more"
        return ""


def told(sessions: ShareSessions) -> list[object]:
    return [
        len(sessions),
        sessions.partition_count,
        [key for key in KEYS if key in sessions],
        [sessions.on_connection(number) for number in range(3)],
        [key for key in KEYS if sessions.is_on(key, 1)],
        [group for group in "ghi" if sessions.has_members(group)],
    ]


def outcome(call: Callable[[], Any]) -> Any:
    """What it returns, or the error."""
    try:
        return call()
    except KafkaError as error:
        return error.code, error.message


@pytest.mark.parametrize("seed", range(12))
def test_they_do_as_the_model_does(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PARTITIONS", MOST_PARTITIONS)
    random = Random(seed)
    model = Model(random.choice([1, 2, 3, 6]))
    sessions = ShareSessions(model.most)
    ever: list[ShareSession] = []
    for _ in range(120):
        key, place, owner = random.choice(KEYS), random.choice(PLACES), random.choice(["x", "y", ""])
        kind = random.choice(["open", "open", "close", "at", "at", "remember", "remember", "remember", "forget"])
        if kind == "open":
            expected = model.refuses(key, owner)
            model.open = [it for it in model.open if it.key != key]
            session = outcome(partial(sessions.open, key, random.randrange(3), owner))
            if expected:
                assert session == (ErrorCode.SHARE_SESSION_LIMIT_REACHED, expected)
            else:
                assert (session.key, session.owner, session.epoch, session.partitions) == (key, owner, 1, {})
                model.open.append(session)
                ever.append(session)
        elif kind == "close":
            assert sessions.close(key) is model.find(key)
            model.open = [it for it in model.open if it.key != key]
        elif kind == "at":
            at(sessions, model, key, random.choice([FINAL_EPOCH, 1, 2, 3]))
        elif ever:
            change(sessions, model, random.choice(ever), place, kind)
        assert told(sessions) == model.told()
        assert [sessions.is_open(it) for it in ever] == [any(it is one for one in model.open) for it in ever]


def at(sessions: ShareSessions, model: Model, key: SessionKey, epoch: int) -> None:
    session = model.find(key)
    before = 0 if session is None else session.epoch
    expected: object = session
    if session is None:
        expected = (ErrorCode.SHARE_SESSION_NOT_FOUND, None)
    elif epoch not in (FINAL_EPOCH, before):
        refusal = f"the session is at epoch {before}, not {epoch}"
        expected = (ErrorCode.INVALID_SHARE_SESSION_EPOCH, refusal)
    assert outcome(lambda: sessions.at(key, epoch)) == expected
    if session is not None:
        assert session.epoch == before + (epoch == before)


def change(sessions: ShareSessions, model: Model, session: ShareSession, place: TopicPartition, kind: str) -> None:
    expected, is_open = list(session.partitions), any(it is session for it in model.open)
    if kind == "forget":
        sessions.forget(session, place)
        assert list(session.partitions) == [it for it in expected if it != place]
        return
    is_new = is_open and place not in expected
    is_full = sum(len(it.partitions) for it in model.open) >= MOST_PARTITIONS
    found = outcome(lambda: sessions.remember(session, place))
    full = ErrorCode.SHARE_SESSION_LIMIT_REACHED, f"share sessions have {MOST_PARTITIONS} partitions already"
    assert found == (full if is_new and is_full else None)
    assert list(session.partitions) == expected + [place] * (is_new and not is_full)
