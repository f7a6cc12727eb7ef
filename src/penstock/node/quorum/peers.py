"""The other replicas of a quorum: requests go out over Kafka's protocol, answers and failures are told to the driver.

To each peer there are up to three connections, each opened when it is first needed: one for fetches, which wait at the
leader, one for changes of voters, which wait for a majority, and one for what must never wait: votes and the news of
who leads. A server answers the requests of one connection in their order, so that one that waits would hold up others.

A request that is not answered within `request_timeout_ms`, the opening of the connection included, ends its connection.
After a failure the next attempt waits for a moment, longer from one to the next, so that a peer that is down costs
little. What goes wrong is logged when it begins and when it is over, and not each time.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial, reduce

from penstock.client.connection import Connection, connect
from penstock.client.errors import ClientError, ClusterUnreachableError
from penstock.client.link import Link
from penstock.client.settings import ClientSettings
from penstock.node.environment.tasks import all_ended
from penstock.node.quorum.messages import answer_class, answer_in, endpoints_in, written
from penstock.node.quorum.ports import PeerAnswer
from penstock.protocol.address import Address
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import Traffic
from penstock.protocol.value import Value
from penstock.raft.effects import ANY_SERVER
from penstock.raft.log_name import METADATA_LOG, LogName
from penstock.raft.requests import (
    AskVersions,
    Fetch,
    FetchSnapshot,
    PeerRequest,
    Vote,
    VoteAnswer,
    VoterChange,
    VoterChangeAnswer,
)
from penstock.raft.voters import Endpoint, Quorum

logger = logging.getLogger(__name__)

NOBODY = -1
MAX_LEARNED = 1_000
"""Addresses told by peers that are kept; any client that reaches the listener may tell some."""
MAX_LINKS = 1_000
"""To nodes that were asked last; whoever may add voters may make some up."""
PRE_VOTES = 2


class Lane(Enum):
    """One connection to a peer, for requests that wait equally long."""

    PULL = "fetch"
    CHANGE = "change of voters"
    TALK = "talk"


class PacedLink:
    """One link to one peer, a node or an address: after a failure the next attempt waits for a moment."""

    def __init__(self, place: int | Address, settings: ClientSettings) -> None:
        self.place = place
        self._settings = settings
        self._link = Link(partial(connect, settings=settings))
        self._connection: Connection | None = None
        """The last one opened, until it has failed."""
        self._gone = Traffic()
        """Of connections before that one."""
        self._not_before_s = 0.0
        self.failures = 0
        self._is_told = False

    @property
    def is_news(self) -> bool:
        """Whether its failure has still to be logged: true once, until a request is answered again."""
        was_told, self._is_told = self._is_told, True
        return not was_told

    async def opened(self, where: Callable[[], Address]) -> Connection:
        """After a failure only a moment later. Raises ClientError, for all tasks that wait for the attempt."""
        failures = self.failures
        pause_s = self._not_before_s - asyncio.get_running_loop().time()
        if pause_s > 0:
            await asyncio.sleep(pause_s)
        if self.failures > failures:
            raise ClusterUnreachableError("another request could not be sent there just now")
        try:
            self._is_replaced_by(await self._link.opened(where()))
        except (Exception, asyncio.CancelledError):  # a cancelled attempt counts as well
            if self.failures == failures:
                self._note_failure()
                self._link.give_up("another request could not be sent there just now")
            raise
        assert self._connection is not None
        return self._connection

    @property
    def traffic(self) -> Traffic:
        return self._gone if self._connection is None else self._gone.plus(self._connection.traffic)

    def _is_replaced_by(self, connection: Connection | None) -> None:
        if connection is not self._connection:
            self._gone, self._connection = self.traffic, connection

    @property
    def is_well(self) -> bool:
        """Whether the last attempt was answered, or there was none."""
        return not self.failures

    def succeeded(self) -> bool:
        """A request was answered. Returns whether the one before it had failed."""
        failed_before, self.failures, self._is_told = self.failures > 0, 0, False
        return failed_before

    async def failed(self, connection: Connection) -> None:
        """A request was not answered on this connection; others that fail with it count only once."""
        if connection is self._connection:
            self._is_replaced_by(None)
            self._note_failure()
            await self.close()

    def _note_failure(self) -> None:
        backoff_s = self._settings.backoff_ms(self.failures) / 1000
        self.failures += 1
        self._not_before_s = asyncio.get_running_loop().time() + backoff_s

    def give_up(self) -> None:
        self._link.give_up("very many other nodes were asked since")

    async def close(self) -> None:
        await self._link.close()


class PacedLinks:
    """Those used last."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._links: dict[int | Address, PacedLink] = {}
        self._gone = Traffic()
        """Of those that made room."""

    def get(self, place: int | Address) -> PacedLink | None:
        return self._links.get(place)

    def to(self, place: int | Address) -> PacedLink:
        link = self._links.pop(place, None) or PacedLink(place, self._settings)
        self._links[place] = link
        if len(self._links) > MAX_LINKS:
            oldest = self._links.pop(next(iter(self._links)))
            self._gone = self._gone.plus(oldest.traffic)
            oldest.give_up()
        return link

    @property
    def traffic(self) -> Traffic:
        return reduce(Traffic.plus, (link.traffic for link in self._links.values()), self._gone)

    async def close(self) -> None:
        for link in self._links.values():
            await link.close()
        self._links.clear()


class Place(Value, kw_only=True):
    """A node in its cluster. A node that knows no voter asks the bootstrap servers."""

    cluster_id: str
    node_id: int = NOBODY
    listener_name: str = "CONTROLLER"
    listeners: tuple[Endpoint, ...] = ()
    bootstrap: Sequence[int | Address] = ()


class Peers:
    """`settings` bounds each request by its `request_timeout_ms` and paces attempts by its `retry_backoff_ms`; requests
    are about `log`. `listens_at` may know where nodes listen, whatever peers and the log say. The peers of several logs
    on the same nodes may have one `talk`.
    """

    def __init__(
        self,
        settings: ClientSettings,
        place: Place,
        log: LogName = METADATA_LOG,
        *,
        listens_at: Callable[[int], Endpoint | None] | None = None,
        talk: PacedLinks | None = None,
    ) -> None:
        self._settings = settings
        self._place = place
        self._log = log
        self._name = "the quorum" if log == METADATA_LOG else str(log)
        self._listens_at = listens_at
        self._shared = talk
        self._bootstrap = list(place.bootstrap)
        self._next_bootstrap = 0
        self._learned: dict[int, Endpoint] = {}
        self._links: dict[Lane, PacedLinks] = {lane: PacedLinks(settings) for lane in Lane}
        if talk is not None:
            self._links[Lane.TALK] = talk
        self._under_way: dict[asyncio.Task[None], tuple[PacedLink, PeerRequest]] = {}
        self._is_stopped = False
        self._quorum: Callable[[], Quorum] = Quorum
        self._answered: Callable[[int, PeerRequest, PeerAnswer], None]
        self._failed: Callable[[int, PeerRequest], None]

    def start(
        self,
        quorum: Callable[[], Quorum],
        answered: Callable[[int, PeerRequest, PeerAnswer], None],
        failed: Callable[[int, PeerRequest], None],
    ) -> None:
        self._quorum, self._answered, self._failed = quorum, answered, failed

    def learn(self, node_id: int, endpoints: Sequence[Endpoint]) -> None:
        """Of this node itself others may know an old address, and would be told it back."""
        endpoint = self._choice(endpoints) if endpoints else None
        if node_id < 0 or node_id == self._place.node_id or endpoint is None or not endpoint.host:
            return
        if node_id not in self._learned and len(self._learned) >= MAX_LEARNED:
            del self._learned[next(iter(self._learned))]
        self._learned[node_id] = Endpoint(self._place.listener_name, endpoint.host, endpoint.port)

    def endpoint_of(self, node_id: int, listener: str | None = None) -> Endpoint | None:
        """By another listener than its own this node knows only what the log says."""
        if listener is None or listener == self._place.listener_name or self._listens_at is not None:
            return next(iter(self._known(node_id)), None)
        voter = self._quorum().voter(node_id)
        return None if voter is None else next((one for one in voter.endpoints if one.name == listener), None)

    def hears(self, node_id: int) -> bool:
        link = self._links[Lane.PULL].get(node_id)
        return link is None or link.is_well

    @property
    def traffic(self) -> Traffic:
        return reduce(Traffic.plus, (links.traffic for links in self._links.values()), Traffic())

    # Requests.

    def send(self, to: int, request: PeerRequest) -> None:
        if self._is_stopped:
            return
        link = self._link(to, request)
        task = asyncio.get_running_loop().create_task(self._carry(link, to, request))
        self._under_way[task] = link, request
        task.add_done_callback(self._done)

    async def settle(self, kind: type[PeerRequest], timeout_ms: int) -> None:
        """A peer that was not reached the last time is not waited for."""
        tasks = [
            task for task, (link, request) in self._under_way.items() if isinstance(request, kind) and link.is_well
        ]
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_ms / 1000)

    async def stop(self) -> None:
        self._is_stopped = True
        for task in list(self._under_way):
            task.cancel()
        await all_ended(self._under_way)
        for links in self._links.values():
            if links is not self._shared:
                await links.close()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._under_way.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a request to a peer of the quorum failed by our own fault", exc_info=error)

    async def _carry(self, link: PacedLink, to: int, request: PeerRequest) -> None:
        was_well, connection = link.is_well, None
        try:
            async with asyncio.timeout(self._settings.request_timeout_ms / 1000):
                connection = await link.opened(lambda: self._where(link, request))
                answer = await self._ask(connection, request)
        except TimeoutError:
            reason = f"no answer within {self._settings.request_timeout_ms} ms"
        except (ClientError, KafkaError, DecodeError) as error:
            reason = str(error)
        else:
            if link.succeeded():
                logger.info("%s of %s answers again at %s", _named(link.place), self._name, connection.address)
            if isinstance(answer, VoterChangeAnswer) and answer.error:
                logger.info("%s refuses %s: %s", _named(link.place), type(request).__name__, answer.message)
            if not self._is_stopped:
                self._answered(to, request, answer)
            return
        if connection is not None:
            await link.failed(connection)
        if was_well and not self._is_stopped and link.is_news:
            what = type(request).__name__
            logger.warning("%s of %s does not answer %s: %s", _named(link.place), self._name, what, reason)
        if not self._is_stopped:
            self._failed(to, request)

    async def _ask(self, connection: Connection, request: PeerRequest) -> PeerAnswer:
        if isinstance(request, Vote) and request.pre_vote and connection.version_for(ApiKey.VOTE) < PRE_VOTES:
            return VoteAnswer(ErrorCode.UNSUPPORTED_VERSION, None, request.epoch)  # else a real vote to the peer
        message = written(request, self._place.cluster_id, self._place.listeners, self._log)
        response = await connection.request(message, answer_class(request))
        for node_id, host, port in endpoints_in(response):
            self.learn(node_id, (Endpoint(self._place.listener_name, host, port),))
        return answer_in(response)

    # Where to.

    def _link(self, to: int, request: PeerRequest) -> PacedLink:
        if isinstance(request, Fetch | FetchSnapshot):
            lane = Lane.PULL
        else:
            lane = Lane.CHANGE if isinstance(request, VoterChange) else Lane.TALK
        if to == ANY_SERVER and self._bootstrap:
            place: int | Address = self._bootstrap[self._next_bootstrap % len(self._bootstrap)]
            self._next_bootstrap += 1
        else:
            place = to
        return self._links[lane].to(place)

    def _where(self, link: PacedLink, request: PeerRequest) -> Address:
        """The address to try; after a failure another one, if more than one is known."""
        if isinstance(link.place, Address):
            return link.place
        if isinstance(request, AskVersions) and request.endpoints:
            known = [self._choice(request.endpoints)]
        else:
            known = self._known(link.place)
        if not known:
            raise ClusterUnreachableError("nobody has said where it listens")
        endpoint = known[link.failures % len(known)]
        return Address(endpoint.host, endpoint.port)

    def _known(self, node_id: int) -> list[Endpoint]:
        """What is known of all nodes; else what a peer said last, then what the log says."""
        if self._listens_at is not None:
            found = self._listens_at(node_id)
            return [] if found is None else [found]
        known = [self._learned[node_id]] if node_id in self._learned else []
        voter = self._quorum().voter(node_id)
        if voter is not None and voter.endpoints and (endpoint := self._choice(voter.endpoints)) not in known:
            known.append(endpoint)
        return known

    def _choice(self, endpoints: Sequence[Endpoint]) -> Endpoint:
        return next((endpoint for endpoint in endpoints if endpoint.name == self._place.listener_name), endpoints[0])


def _named(place: int | Address) -> str:
    if isinstance(place, Address):
        return f"the bootstrap server {place}"
    return "no bootstrap server" if place == ANY_SERVER else f"node {place}"
