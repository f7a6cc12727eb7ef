"""The language of the transcripts of one group that may be of any kind, one after the other.

ask MEMBER REQUEST                      as in the table of kinds and requests; `~` is who came last by JoinGroup
promised                                somebody is given an id for JoinGroup
ends commit|abort                       the transaction of producer 1
hold | commit | fail ERROR              writes wait; they are committed; they fail
advance MS | gone                       time goes on; the topic is deleted
restart | hand-over                     another coordinator reads the log; after this one has written all it knows
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tests.golden.assigned_lecture import Shared, shown
from tests.golden.test_kinds_and_requests import REQUESTS, SETTINGS, G, Groups
from tests.golden.told import told_of

from penstock.coordinator.effects import End, Part
from penstock.protocol.errors import ErrorCode, KafkaError


class KindsLecture(Groups):
    def __init__(self) -> None:
        super().__init__()
        self.bench: Shared = Shared(SETTINGS, words=1)
        self.member_id = "m"

    def handle(self, line: str) -> Iterable[object]:
        """Plays one line."""
        command, _, rest = line.partition(" ")
        play: Callable[[str], Iterator[str]] = getattr(self, f"do_{command.replace('-', '_')}")
        said = list(play(rest))
        lines, self.bench.lines = self.bench.lines, []
        return [*lines, *said]

    def do_anew(self, rest: str) -> Iterator[str]:
        self.__init__()  # type: ignore[misc]
        yield from ()

    def do_ask(self, rest: str) -> Iterator[str]:
        member, _, request = rest.partition(" ")
        try:
            answer = REQUESTS[request](self, self.member_id if member == "~" else member)
        except KafkaError as error:
            yield error.code.name
            return
        if request == "history":
            yield from map(told_of, answer.epochs)
        elif request.startswith("describe") or isinstance(answer, int):
            yield shown(answer)
        if request.startswith("join"):
            self.member_id = getattr(answer, "member_id", None) or self.member_id
        yield f"is {self.kind}"

    def do_promised(self, rest: str) -> Iterator[str]:
        answer = self.join(version=4)
        if answer is not None and answer.member_id:
            self.member_id = answer.member_id
        yield f"is {self.kind}"

    def do_ends(self, rest: str) -> Iterator[str]:
        part = Part(1, 0, End(0, rest == "commit"))
        self.bench.take(self.shard.end_transaction("coordinator", part, self.bench.now_ms))
        yield f"is {self.kind}, offsets {shown(self.shard.offsets(G))}"

    def do_hold(self, rest: str) -> Iterator[str]:
        self.bench.holds = True
        yield from ()

    def do_commit(self, rest: str) -> Iterator[str]:
        self.bench.holds = False
        self.bench.commit()
        yield f"is {self.kind}, offsets {shown(self.shard.offsets(G))}, at {shown(self.positions)}"

    @property
    def positions(self) -> list[object]:
        topic = self.bench.image.topics.get("words")
        return [] if topic is None else list(self.shard.positions("words", topic.topic_id))

    def do_fail(self, rest: str) -> Iterator[str]:
        self.bench.fail(ErrorCode[rest])
        yield from self.do_commit("")

    def do_advance(self, rest: str) -> Iterator[str]:
        self.bench.advance(int(rest))
        yield f"is {self.kind}"

    def do_gone(self, rest: str) -> Iterator[str]:
        if "words" in self.bench.image.topics:
            self.bench.remove("words")
            self.bench.take(self.shard.forget_topics(["words"], self.bench.now_ms))
            self.bench.advance(0)
        else:
            self.bench.grow("words", 1)
        yield from ()

    def do_restart(self, rest: str) -> Iterator[str]:
        self.bench.restart()
        yield from self.do_commit("")

    def do_hand_over(self, rest: str) -> Iterator[str]:
        yield from self.do_commit("")
        self.bench.take(self.shard.seal(self.bench.now_ms))
        yield from self.do_restart("")
