"""When a token is renewed, and what a client does while there is no other."""

from __future__ import annotations

import pytest
from tests.identity_provider import SigningPair, claims

from penstock.client.oauth.provider import ProviderError
from penstock.client.oauth.tokens import FAILURE_S, Renewal, TokenSource

PAIR = SigningPair("k")


class World:
    def __init__(self, lifetime_s: int = 1_000) -> None:
        self.now_s = 1_000_000.0
        self.lifetime_s = lifetime_s
        self.faults: list[ProviderError] = []
        self.asked = 0
        self.pauses: list[float] = []
        self.text: str | None = None
        self.source = TokenSource(self.retrieve, Renewal(jitter=0.0), lambda: self.now_s, self.pause)

    def retrieve(self) -> str:
        self.asked += 1
        if self.faults:
            raise self.faults.pop(0)
        return self.text or PAIR.sign(claims(self.now_s, exp=int(self.now_s) + self.lifetime_s, n=self.asked))

    def pause(self, pause_s: float) -> None:
        self.pauses.append(pause_s)
        self.now_s += pause_s

    def times_after(self, seconds: float) -> int:
        self.now_s += seconds
        self.source.token()
        return self.asked


def test_a_token_is_used_again_until_it_is_old() -> None:
    world = World()
    first = world.source.token()
    assert world.source.token() is first
    assert world.times_after(699) == 1
    assert world.times_after(1) == 2, "300 s before it expires"
    assert "[hidden]" in repr(first)


def test_a_short_token_is_renewed_at_its_part_of_its_life() -> None:
    world = World(300)
    world.source.token()
    assert world.times_after(239) == 1
    assert world.times_after(1) == 2


def test_a_provider_that_is_away_is_asked_again_with_longer_pauses() -> None:
    world = World()
    world.faults = [ProviderError("away")] * 4
    world.source.token()
    assert world.pauses == [0.1, 0.2, 0.4, 0.8]


def test_it_is_not_asked_for_ever_nor_again_where_that_does_not_help() -> None:
    world = World()
    world.faults = [ProviderError("away")] * 100
    with pytest.raises(ProviderError, match="away"):
        world.source.token()
    assert sum(world.pauses) < 10
    world.pauses.clear()
    world.now_s += FAILURE_S
    world.faults = [ProviderError("wrong secret", is_final=True)]
    with pytest.raises(ProviderError, match="wrong secret"):
        world.source.token()
    assert world.pauses == []


def test_others_hear_of_a_failure_without_asking() -> None:
    world = World()
    world.faults = [ProviderError("no", is_final=True)]
    for _ in range(3):
        with pytest.raises(ProviderError, match="no"):
            world.source.token()
    assert world.asked == 1
    assert world.times_after(FAILURE_S) == 2


def test_the_old_token_does_as_long_as_it_holds() -> None:
    world = World()
    first = world.source.token()
    world.now_s += 700
    world.faults = [ProviderError("no", is_final=True)] * 2
    assert world.source.token() is first
    assert world.source.token() is first
    assert world.asked == 2, "it is asked again after a while"
    world.now_s += 300
    with pytest.raises(ProviderError, match="no"):
        world.source.token()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("opaque", "no token that can be used: a token has three parts"),
        (PAIR.sign(claims(exp=None)), "exp is missing"),
        (PAIR.sign(claims(exp=999_999)), "expired already"),
    ],
)
def test_what_is_given_has_to_be_a_token(text: str, words: str) -> None:
    world = World()
    world.text = text
    with pytest.raises(ProviderError, match=words) as refused:
        world.source.token()
    assert text not in str(refused.value)
