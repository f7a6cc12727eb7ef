"""The way to the peers, on real sockets."""

import asyncio
import logging
from collections.abc import AsyncIterator
from random import Random

import pytest
from tests.unit.client.fake_broker import FakeBroker, Reply, fake_broker

from penstock.client.settings import ClientSettings
from penstock.node.quorum import peers as module
from penstock.node.quorum.peers import MAX_LEARNED, Lane, PacedLinks, Peers, Place
from penstock.node.quorum.ports import PeerAnswer
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import ApiVersionsResponse, SupportedFeatureKey
from penstock.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from penstock.protocol.messages.fetch import FetchRequest, NodeEndpoint
from penstock.protocol.messages.vote import VoteRequest, VoteResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import RequestHeader
from penstock.protocol.schema import Message
from penstock.raft import kafka_answers
from penstock.raft import requests as ask
from penstock.raft.effects import ANY_SERVER
from penstock.raft.voters import Endpoint, Quorum, ReplicaKey, Voter

ME, PEER = ReplicaKey(1), ReplicaKey(2)
VOTE = ask.Vote(3, ME, PEER, 2, 10)
FETCH = ask.Fetch(3, ME, 10, 2, 9, 500, 1 << 20)
GRANTED = ask.VoteAnswer(ErrorCode.NONE, None, 3, granted=True)
NOTHING_NEW = ask.FetchAnswer(ErrorCode.NONE, 2, 3, 9, 0)
FAILED = "failed"


class Told:
    """What the peers tell the driver."""

    def __init__(self) -> None:
        self.outcomes: asyncio.Queue[tuple[int, ask.PeerRequest, PeerAnswer | str]] = asyncio.Queue()
        self.quorum = Quorum()

    def answered(self, sender: int, request: ask.PeerRequest, answer: PeerAnswer) -> None:
        self.outcomes.put_nowait((sender, request, answer))

    def failed(self, to: int, request: ask.PeerRequest) -> None:
        self.outcomes.put_nowait((to, request, FAILED))

    async def next(self) -> tuple[int, ask.PeerRequest, PeerAnswer | str]:
        async with asyncio.timeout(30):
            return await self.outcomes.get()


@pytest.fixture
def told() -> Told:
    return Told()


def peers_of(told: Told, *bootstrap: Address, timeout_ms: int = 30_000) -> Peers:
    settings = ClientSettings(
        request_timeout_ms=timeout_ms,
        socket_connection_setup_timeout_ms=timeout_ms,
        retry_backoff_ms=1,
        retry_backoff_max_ms=5,
        random=Random(1),
    )
    peers = Peers(
        settings,
        Place(
            cluster_id="cluster",
            listeners=(Endpoint("CONTROLLER", "me", 9),),
            bootstrap=bootstrap,
            node_id=ME.id,
        ),
    )
    peers.start(lambda: told.quorum, told.answered, told.failed)
    return peers


@pytest.fixture
async def peers(told: Told) -> AsyncIterator[Peers]:
    peers = peers_of(told)
    yield peers
    await peers.stop()


def at(told: Told, address: Address) -> None:
    """The peer listens there, as the log says, and elsewhere for others."""
    endpoints = (Endpoint("OTHERS", "127.0.0.1", 1), Endpoint("CONTROLLER", address.host, address.port))
    told.quorum = Quorum.of([Voter(PEER, endpoints)])


def answering(header: RequestHeader, request: Message) -> Reply:
    """A good peer; a fetch waits at it for ever."""
    if isinstance(request, VoteRequest):
        return kafka_answers.write_vote_answer(GRANTED)
    if isinstance(request, BeginQuorumEpochRequest):
        return kafka_answers.write_begin_epoch_answer(ask.EpochAnswer(ErrorCode.NONE, 1, 3))
    assert isinstance(request, FetchRequest)
    return None


async def test_a_request_travels_as_kafkas_and_its_answer_comes_back(told: Told, peers: Peers) -> None:
    async with fake_broker(answering) as broker:
        at(told, broker.address)
        peers.send(2, VOTE)
        assert await told.next() == (2, VOTE, GRANTED)
        peers.send(2, begin := ask.BeginEpoch(3, 1, PEER))
        assert await told.next() == (2, begin, ask.EpochAnswer(ErrorCode.NONE, 1, 3))
        (_, vote), (_, told_begin) = [r for r in broker.requests if r[0].api_key != ApiKey.API_VERSIONS]
        assert isinstance(vote, VoteRequest)
        assert (vote.cluster_id, vote.voter_id, vote.topics[0].partitions[0].replica_id) == ("cluster", 2, 1)
        assert isinstance(told_begin, BeginQuorumEpochRequest)
        assert [(e.name, e.host, e.port) for e in told_begin.leader_endpoints] == [("CONTROLLER", "me", 9)]


async def test_a_fetch_that_waits_holds_up_no_vote(told: Told, peers: Peers) -> None:
    async with fake_broker(answering) as broker:
        at(told, broker.address)
        peers.send(2, FETCH)
        peers.send(2, VOTE)
        assert await told.next() == (2, VOTE, GRANTED)


async def test_a_peer_that_never_answers_fails_the_request_and_gets_a_new_connection(told: Told) -> None:
    silent = [True]

    def sometimes(header: RequestHeader, request: Message) -> Reply:
        return None if silent[0] else answering(header, request)

    peers = peers_of(told, timeout_ms=200)
    async with fake_broker(sometimes) as broker:
        at(told, broker.address)
        peers.send(2, VOTE)
        assert await told.next() == (2, VOTE, FAILED)
        silent[0] = False
        failures = 1
        peers.send(2, VOTE)
        while (outcome := await told.next()) == (2, VOTE, FAILED):  # a busy machine may be too slow for it once more
            failures += 1
            peers.send(2, VOTE)
        assert outcome == (2, VOTE, GRANTED)
        assert connections(broker) == failures + 1
    await peers.stop()


async def test_a_leader_is_heard_until_a_fetch_fails(told: Told, peers: Peers) -> None:
    async with fake_broker(lambda header, request: b"") as broker:
        at(told, broker.address)
        assert peers.hears(2), "nothing is known against it"
        peers.send(2, FETCH)
        assert peers.hears(2), "the answer may come"
        assert await told.next() == (2, FETCH, FAILED)
    assert not peers.hears(2)


async def test_requests_that_go_on_while_one_times_out_fail_with_it_once(told: Told) -> None:
    peers = peers_of(told, timeout_ms=200)
    async with fake_broker(lambda header, request: None) as broker:
        at(told, broker.address)
        for _ in range(3):
            peers.send(2, VOTE)
        assert [await told.next() for _ in range(3)] == [(2, VOTE, FAILED)] * 3
        assert peers._links[Lane.TALK].to(2).failures == 1
    await peers.stop()


async def test_a_peer_that_is_down_is_found_when_it_is_back(
    told: Told, peers: Peers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock.node.quorum.peers")
    async with fake_broker(answering) as broker:
        at(told, broker.address)
    for _ in range(3):
        peers.send(2, VOTE)
        assert await told.next() == (2, VOTE, FAILED)
    async with fake_broker(answering) as another:
        at(told, another.address)
        peers.send(2, VOTE)
        assert await told.next() == (2, VOTE, GRANTED)
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1, "the beginning is told, not each time"
    assert "node 2 of the quorum does not answer Vote" in warnings[0]
    assert "answers again" in caplog.records[-1].message


async def test_a_node_whose_address_nobody_knows_fails(told: Told, peers: Peers) -> None:
    peers.send(7, VOTE)
    assert await told.next() == (7, VOTE, FAILED)
    peers.send(ANY_SERVER, FETCH)
    assert await told.next() == (ANY_SERVER, FETCH, FAILED)


async def test_bootstrap_servers_are_asked_in_turn_and_tell_where_the_leader_is(told: Told) -> None:
    def knows(header: RequestHeader, request: Message) -> Reply:
        response = kafka_answers.write_fetch_answer(ask.FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, 2, 3))
        response.node_endpoints = [NodeEndpoint(node_id=2, host="127.0.0.1", port=leader.address.port)]
        return response

    def leads(header: RequestHeader, request: Message) -> Reply:
        return kafka_answers.write_fetch_answer(NOTHING_NEW)

    async with fake_broker(knows) as first, fake_broker(knows) as second, fake_broker(leads) as leader:
        peers = peers_of(told, first.address, second.address)
        for _ in range(4):
            peers.send(ANY_SERVER, FETCH)
            sender, _, answer = await told.next()
            assert isinstance(answer, ask.FetchAnswer)
            assert (sender, answer.leader_id) == (ANY_SERVER, 2)
        assert [sum(isinstance(r, FetchRequest) for _, r in broker.requests) for broker in (first, second)] == [2, 2]
        assert [connections(first), connections(second)] == [1, 1]
        peers.send(2, FETCH)
        assert await told.next() == (2, FETCH, NOTHING_NEW)
        found = peers.endpoint_of(2)
        assert found is not None
        assert (found.host, found.port) == ("127.0.0.1", leader.address.port)
        await peers.stop()


async def test_what_a_peer_said_is_not_believed_for_ever(told: Told, peers: Peers) -> None:
    async with fake_broker(answering) as broker:
        at(told, broker.address)
        peers.learn(2, [Endpoint("CONTROLLER", "127.0.0.1", 1)])  # nobody listens there any more
        peers.send(2, VOTE)
        assert await told.next() == (2, VOTE, FAILED)
        peers.send(2, VOTE)
        assert await told.next() == (2, VOTE, GRANTED)


async def test_what_others_remember_of_this_node_is_not_believed(told: Told, peers: Peers) -> None:
    here = Endpoint("CONTROLLER", "me", 9)
    told.quorum = Quorum.of([Voter(ME, (here,)), Voter(PEER)])
    peers.learn(ME.id, [Endpoint("CONTROLLER", "where-it-was", 8)])
    assert peers.endpoint_of(ME.id) == here, "as leader it would spread the old address"


async def test_another_listener_is_told_where_that_one_listens(told: Told, peers: Peers) -> None:
    """Nodes in the clear, and those that come over TLS already, ask each other while the one replaces the other."""
    by_both = (Endpoint("CONTROLLER", "clear", 9), Endpoint("SECURED", "safe", 8))
    told.quorum = Quorum.of([Voter(ME), Voter(PEER, by_both)])
    assert peers.endpoint_of(PEER.id, "SECURED") == by_both[1]
    assert peers.endpoint_of(PEER.id, "CONTROLLER") == peers.endpoint_of(PEER.id) == by_both[0]
    assert peers.endpoint_of(PEER.id, "OTHER") is None, "no address is better than that of another protocol"
    peers.learn(PEER.id, by_both[::-1])
    assert peers.endpoint_of(PEER.id) == by_both[0], "the leader's first listener is not the one that this node asks by"


async def test_what_a_peer_said_last_counts_for_the_listener_by_which_this_node_asks(told: Told, peers: Peers) -> None:
    by_both = (Endpoint("CONTROLLER", "clear", 9), Endpoint("SECURED", "safe", 8))
    told.quorum = Quorum.of([Voter(ME), Voter(PEER, by_both)])
    moved = Endpoint("CONTROLLER", "moved", 7)
    peers.learn(PEER.id, [moved])
    found = [peers.endpoint_of(PEER.id, listener) for listener in (None, "CONTROLLER", "SECURED", "OTHER")]
    assert found == [moved, moved, by_both[1], None]
    for known in (None, Endpoint("IN", "known", 6)):
        peers._listens_at = {PEER.id: known}.get
        found = [peers.endpoint_of(PEER.id, listener) for listener in (None, "CONTROLLER", "SECURED", "OTHER")]
        assert found == [known] * 4, "it knows where nodes listen, whatever others say"


async def test_only_so_many_addresses_are_kept(peers: Peers) -> None:
    for node_id in range(10, 11 + MAX_LEARNED):
        peers.learn(node_id, [Endpoint("CONTROLLER", "h", 1)])
    assert peers.endpoint_of(10) is None
    assert peers.endpoint_of(11) is not None
    assert peers.endpoint_of(10 + MAX_LEARNED) is not None


async def test_a_replica_that_is_no_voter_yet_is_asked_what_it_understands(told: Told, peers: Peers) -> None:
    def versions(header: RequestHeader, request: Message) -> Reply:
        raise AssertionError("the fake broker answers this itself")

    async with fake_broker(versions) as broker:
        question = ask.AskVersions(PEER, (Endpoint("CONTROLLER", broker.address.host, broker.address.port),))
        peers.send(2, question)
        assert await told.next() == (2, question, ask.AskVersionsAnswer(ErrorCode.NONE, 0, 0))
        features = [SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)]
        table = broker.versions_table()
        broker.reply = lambda header, request: ApiVersionsResponse(  # type: ignore[method-assign]
            api_keys=table, supported_features=features
        )
        peers.send(2, question)
        assert await told.next() == (2, question, ask.AskVersionsAnswer(ErrorCode.NONE, 0, 1))


async def test_a_pre_vote_is_not_asked_of_who_would_cast_a_real_one(told: Told, peers: Peers) -> None:
    async with fake_broker(answering, {ApiKey.VOTE: (0, 1)}) as broker:
        at(told, broker.address)
        question = ask.Vote(3, ME, PEER, 2, 10, pre_vote=True)
        peers.send(2, question)
        assert await told.next() == (2, question, ask.VoteAnswer(ErrorCode.UNSUPPORTED_VERSION, None, 3))
        assert not [request for _, request in broker.requests if isinstance(request, VoteRequest)]


@pytest.mark.parametrize(
    "response",
    [
        VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID),
        VoteResponse(),
        b"not Kafka at all",
    ],
)
async def test_a_refusal_and_nonsense_are_failures(told: Told, peers: Peers, response: Message | bytes) -> None:
    async with fake_broker(lambda header, request: response) as broker:
        at(told, broker.address)
        peers.send(2, VOTE)
        assert await told.next() == (2, VOTE, FAILED)


async def test_a_peer_that_serves_no_votes_fails(told: Told, peers: Peers) -> None:
    async with fake_broker(answering, {ApiKey.VOTE: (9, 9)}) as broker:
        at(told, broker.address)
        peers.send(2, VOTE)
        assert await told.next() == (2, VOTE, FAILED)


async def test_after_a_stop_nothing_is_told_and_nothing_is_sent(told: Told, peers: Peers) -> None:
    async with fake_broker(answering) as broker:
        at(told, broker.address)
        peers.send(2, FETCH)
        peers.send(2, VOTE)
        await told.next()
        await peers.stop()
        peers.send(2, VOTE)
        assert told.outcomes.empty()
        assert not peers._under_way


async def test_who_goes_waits_for_those_who_are_there_only(told: Told) -> None:
    end = ask.EndEpoch(3, 1)

    def ends(header: RequestHeader, request: Message) -> Reply:
        return kafka_answers.write_end_epoch_answer(ask.EpochAnswer(ErrorCode.NONE, None, 3))

    peers = peers_of(told)
    async with fake_broker(ends) as broker:
        at(told, broker.address)
        peers.send(7, VOTE)
        await told.next()
        peers.send(7, end)
        peers.send(2, FETCH)
        peers.send(2, end)
        await peers.settle(ask.EndEpoch, 30_000)
        outcomes = [await told.next() for _ in range(told.outcomes.qsize())]
        assert (2, end, ask.EpochAnswer(ErrorCode.NONE, None, 3)) in outcomes
    await peers.stop()


def connections(broker: FakeBroker) -> int:
    """How many connections there were: each begins with this request."""
    return sum(header.api_key == ApiKey.API_VERSIONS for header, _ in broker.requests)


async def test_nodes_that_are_asked_no_more_make_room(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    """Whoever may add voters may make them up; nodes that leave had their links kept, with what came over them last."""
    monkeypatch.setattr(module, "MAX_LINKS", 2)
    async with fake_broker(answering) as broker:
        links = PacedLinks(ClientSettings())
        first = links.to(1)
        connection = await first.opened(lambda: broker.address)
        traffic = links.traffic
        links.to(2)
        assert links.to(1) is first, "it is kept while it is used"
        for node_id in range(3, 9):
            links.to(node_id)
        assert (len(links._links), links.get(1), links.get(2)) == (2, None, None)
        assert connection.closed
        assert links.traffic == traffic
        await links.close()
