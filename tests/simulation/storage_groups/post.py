"""How replicas of a group and their clients reach each other on virtual time: messages, which may be late or lost."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar, cast

from penstock.node.quorum.driver import QuorumDriver
from penstock.node.quorum.no_peers import NoPeers
from penstock.node.quorum.ports import PeerAnswer
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.raft.requests import Answer, AskVersions, AskVersionsAnswer, PeerRequest
from penstock.raft.voters import DYNAMIC_VOTERS, STATIC_VOTERS, Quorum
from penstock.testing.simulator.loop import Process, VirtualLoop

T = TypeVar("T")
LOST = KafkaError(ErrorCode.NETWORK_EXCEPTION, "no answer came")


class Post:
    """Carries what one process has for another; `cut` are the ways on which everything is lost."""

    def __init__(self, loop: VirtualLoop, random: Random) -> None:
        self.loop = loop
        self.delay_s = 0.001
        self.slow: dict[str, float] = {}
        self.cut: dict[tuple[str, str], None] = {}
        self._random = random
        self._connections: dict[tuple[str, str], float] = {}
        """When the last message of each comes that must not be overtaken."""

    def carry(self, sender: str, to: Process, arrive: Callable[[], object], *, in_order: bool = False) -> None:
        """Call `arrive` in the process that it is sent to, later, if that lives then."""
        if (sender, to.host) in self.cut:
            return
        factor = max(self.slow.get(sender, 1.0), self.slow.get(to.host, 1.0))
        moment = self.loop.moment + self._random.uniform(0.1, 2) * self.delay_s * factor
        if in_order:
            moment = self._connections[sender, to.host] = max(moment, self._connections.get((sender, to.host), 0.0))
        self.loop.call_at_moment(moment, arrive, context=to.context.copy())

    async def ask(
        self, me: Process, to: Process, ask: Callable[[], Awaitable[T]], timeout_s: float, *, in_order: bool = False
    ) -> T:
        """What another process answers. KafkaError, its own or NETWORK_EXCEPTION. Questions that are asked `in_order`
        arrive as over one connection.
        """
        answer: asyncio.Future[T] = self.loop.create_future()

        async def asked() -> None:
            try:
                result, error = await ask(), None
            except KafkaError as raised:
                result, error = None, raised
            self.carry(to.host, me, lambda: _settle(answer, result, error))

        self.carry(me.host, to, lambda: to.spawn(self.loop, asked()), in_order=in_order)
        await asyncio.wait([answer], timeout=timeout_s)
        if not answer.done():
            raise LOST
        return answer.result()

    def heal(self) -> None:
        """All ways are open."""
        self.cut.clear()
        self.slow.clear()


def _settle(answer: "asyncio.Future[T]", result: T | None, error: KafkaError | None) -> None:
    if error is not None:
        answer.set_exception(error)
        answer.exception()  # nobody may be waiting any more
    else:
        answer.set_result(cast("T", result))


class Links(NoPeers):
    """`PeerLinks` of one replica, by post."""

    def __init__(
        self, me: Process, post: Post, driver_of: Callable[[int], tuple[Process, QuorumDriver] | None]
    ) -> None:
        self._me = me
        self._post = post
        self._driver_of = driver_of
        self._answered: Callable[[int, PeerRequest, PeerAnswer], None]

    def start(
        self,
        quorum: Callable[[], Quorum],
        answered: Callable[[int, PeerRequest, PeerAnswer], None],
        failed: Callable[[int, PeerRequest], None],
    ) -> None:
        """What is lost fails by its time-out."""
        self._answered = answered

    def send(self, to: int, request: PeerRequest) -> None:
        """By post, and so comes the answer."""
        peer = self._driver_of(to)
        if peer is None:
            return
        process, driver = peer
        if isinstance(request, AskVersions):
            known = AskVersionsAnswer(ErrorCode.NONE, STATIC_VOTERS, DYNAMIC_VOTERS)
            self._post.carry(process.host, self._me, lambda: self._answered(to, request, known))
            return

        def answer(done: asyncio.Future[Answer]) -> None:
            if not done.cancelled() and done.exception() is None:
                self._post.carry(process.host, self._me, lambda: self._answered(to, request, done.result()))

        self._post.carry(self._me.host, process, lambda: driver.request(request).add_done_callback(answer))
