"""What a simulated client of transactions asks brokers, field by field, and what it notes of their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.simulation.whole_nodes.test_transactions import CONSENSUS, THREE
from tests.stand_in import stand_in

from penstock.client.admin.features import UpgradeType
from penstock.metadata.features import TRANSACTION_VERSION
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import decode_batch, iterate_batches
from penstock.testing.simulator import transactions
from penstock.testing.simulator.clients import World
from penstock.testing.simulator.plan import Plan
from penstock.testing.simulator.transactions import Fate, TransactingClient
from penstock.testing.simulator.two_phases import LONG_S, NOBODY, DriverDiedError, TwoPhaseClient

NOW_MS = 1_700_000_000_123


class Drawn:
    """A random one of which each call says what was drawn; what may be drawn is kept."""

    def __init__(self, *numbers: float, segment: int = 1000, pieces: int = 1, rises: bool = False) -> None:
        self.numbers = [0.0 if rises else 0.5, *numbers]
        self.segment, self.pieces = segment, pieces
        self.asked: list[Any] = []

    def random(self) -> float:
        return self.numbers.pop(0)

    def choice(self, those: Any) -> Any:
        self.asked.append(("choice", list(those)))
        return self.segment if self.segment in those else those[-1]

    def sample(self, those: Any, count: int) -> list[Any]:
        return list(those)[-count:]

    def randrange(self, *limits: int) -> int:
        self.asked.append(("randrange", limits))
        return self.pieces

    def expovariate(self, rate: float) -> float:
        return 1 / rate


class Cluster:
    """Brokers that answer all with what stands there, or with errors first."""

    def __init__(self, client: TransactingClient) -> None:
        self.asked: list[Any] = []
        self.refusals: list[ErrorCode] = []
        self.client = client

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.asked.append("closed")

    async def topic(self, name: str) -> Any:
        assert name == "c"
        return SimpleNamespace(partitions={0: SimpleNamespace(leader=10), 1: SimpleNamespace(leader=11)})

    async def to_any(self, request: Any, _: type, newest: int) -> Any:
        assert (request.key, request.key_type, newest) == ("c", 1, 3)
        return SimpleNamespace(error_code=0, node_id=7)

    def _code(self) -> int:
        return self.refusals.pop(0) if self.refusals else 0

    async def to_node(self, node: int, request: Any, answer: type, newest: int) -> Any:
        self.asked.append((node, request, newest))
        partition = SimpleNamespace(error_code=self._code(), base_offset=40, partition_error_code=self._code())
        return SimpleNamespace(
            error_code=partition.error_code,
            producer_id=5,
            producer_epoch=6,
            responses=[SimpleNamespace(partition_responses=[partition])],
            results_by_topic_v3_and_below=[
                SimpleNamespace(results_by_partition=[SimpleNamespace(partition_error_code=0), partition])
            ],
        )

    async def to_coordinator(self, group: str, request: Any, answer: type, newest: int) -> Any:
        self.asked.append((group, request, newest))
        row = SimpleNamespace(partitions=[SimpleNamespace(error_code=self._code())])
        return SimpleNamespace(topics=[row])

    def forget_coordinator(self, group: str) -> None:
        self.asked.append(("forget", group))

    async def retrying(self, attempt: Callable[[], Any], *, passing: Callable[[Exception], bool]) -> Any:
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                if not passing(error):
                    raise


class Life:
    """A client and its brokers; nothing takes time."""

    def __init__(self, drawn: Drawn, plan: Plan = THREE, kind: type[TransactingClient] = TransactingClient) -> None:
        self.drawn, self.notes, self.slept = drawn, list[str](), list[float]()
        self.world = World(
            cast("Any", SimpleNamespace(now_ms=lambda: NOW_MS)),
            ["h:1"],
            cast("Any", SimpleNamespace(violated=pytest.fail, lossy_crashes=0)),
            cast("Any", SimpleNamespace(note=lambda _, what: self.notes.append(what))),
        )
        self.client = kind(self.world, "c", cast("Any", drawn), plan)
        assert self.client._producer == NOBODY
        self.cluster = Cluster(self.client)
        self.client._cluster = cast("Any", self.cluster)
        self.client._producer = (3, 4)
        self.client._sequences = {0: 8, 1: 9}

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def fields(message: Any, *names: str) -> tuple[Any, ...]:
    return tuple(getattr(message, name) for name in names)


OF_PRODUCE = ("transactional_id", "acks", "timeout_ms")
OF_COMMIT = ("transactional_id", "group_id", "producer_id", "producer_epoch")
OF_END = ("transactional_id", "producer_id", "producer_epoch", "committed")


@pytest.mark.parametrize("rises", [False, True])
async def test_a_record_goes_with_its_sequence_until_it_is_acknowledged(rises: bool) -> None:
    life = Life(Drawn(rises=rises))
    life.client._transactions[1] = transactions._Transaction()
    life.cluster.refusals = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    await life.client._produce(1, 1)
    await life.client._produce(1, 1)
    values = [b"c:1:1.9", b"c:1:1.9", b"c:1:1.10"]
    for (node, request, newest), value, sequence in zip(life.cluster.asked, values, (9, 9, 10), strict=True):
        assert (node, newest, fields(request, *OF_PRODUCE)) == (11, 12 if rises else 11, ("c", -1, 2000))
        (row,) = request.topic_data[0].partition_data
        assert (request.topic_data[0].name, row.index) == ("c", 1)
        ((position, header),) = iterate_batches(row.records)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (3, 4, sequence)
        assert header.is_transactional
        ((record),) = decode_batch(row.records, position)
        assert (record.value, record.timestamp_ms) == (value, NOW_MS)
    assert life.client._sequences == {0: 8, 1: 11}
    assert life.client._transactions[1].acknowledged == dict.fromkeys(values[1:])
    assert life.notes == ["c:1:1.9 is at c-1 offset 40", "c:1:1.10 is at c-1 offset 40"]


async def test_a_record_that_is_refused_is_not_acknowledged() -> None:
    life = Life(Drawn())
    life.client._transactions[1] = transactions._Transaction()
    life.cluster.refusals = [ErrorCode.INVALID_PRODUCER_EPOCH]
    with pytest.raises(KafkaError):
        await life.client._produce(1, 0)
    assert (life.client._sequences, life.client._transactions[1].acknowledged, life.notes) == ({0: 8, 1: 9}, {}, [])


async def test_all_parts_of_a_transaction_are_added() -> None:
    life = Life(Drawn())
    life.cluster.refusals = [ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS]
    await life.client._add([1, 0])
    assert len(life.cluster.asked) == 2, "an error of any partition is one"
    for node, request, newest in life.cluster.asked:
        assert (node, newest) == (7, 3)
        kept = ("transactional_id", "producer_id", "producer_epoch")
        assert fields(request, *(f"v3_and_below_{name}" for name in kept)) == ("c", 3, 4)
        assert [(it.name, it.partitions) for it in request.v3_and_below_topics] == [("c", [1, 0])]


@pytest.mark.parametrize("rises", [False, True])
async def test_the_offset_of_the_group_is_the_number(rises: bool) -> None:
    life = Life(Drawn(rises=rises))
    await life.client._commit_offset(6)
    life.cluster.refusals = [ErrorCode.NONE] * (0 if rises else 2) + [ErrorCode.NOT_COORDINATOR]
    await life.client._commit_offset(7)
    asked = list(life.cluster.asked)
    commits = [one for one in asked if one[0] == "group of c"]
    added = [one for one in asked if one[0] == 7]
    assert len(added) == (0 if rises else 2)
    for _, request, newest in added:
        assert (fields(request, *OF_COMMIT), newest) == (("c", "group of c", 3, 4), 3)
    assert [one for one in asked if one[0] == "forget"] == [("forget", "group of c")]
    offsets = []
    for _, request, newest in commits:
        assert (fields(request, *OF_COMMIT), newest) == (("c", "group of c", 3, 4), 5 if rises else 3)
        (topic,) = request.topics
        assert topic.name == "c"
        offsets += [(row.partition_index, row.committed_offset) for row in topic.partitions]
    assert offsets == [(0, 6), (0, 7), (0, 7)]


@pytest.mark.parametrize("rises", [False, True])
@pytest.mark.parametrize("is_commit", [False, True])
async def test_an_end_is_asked_for_and_noted(rises: bool, is_commit: bool) -> None:
    life = Life(Drawn(rises=rises))
    life.client._transactions[1] = transactions._Transaction()
    await life.client._end(1, is_commit=is_commit)
    ((node, request, newest),) = life.cluster.asked
    assert (node, newest, fields(request, *OF_END)) == (7, 5 if rises else 4, ("c", 3, 4, is_commit))
    assert life.client._transactions[1].fate is (Fate.COMMITTED if is_commit else Fate.ABORTED)
    assert (life.client._producer, life.client._sequences) == (
        ((5, 6), {0: 0, 1: 0}) if rises else ((3, 4), {0: 8, 1: 9})
    )
    assert life.notes == [f"transaction 1 is {'committed' if is_commit else 'aborted'}"]


async def test_a_life_begins_with_a_new_epoch() -> None:
    life = Life(Drawn())
    await life.client._begin_life()
    ((node, request, newest),) = life.cluster.asked
    assert (node, newest, fields(request, "transactional_id", "transaction_timeout_ms")) == (7, 4, ("c", 5000))
    assert (life.client._producer, life.client._sequences) == ((5, 6), {0: 0, 1: 0})


@pytest.mark.parametrize("rises", [False, True])
@pytest.mark.parametrize("commits", [False, True])
@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize("drawn", [0.59, 0.6])
async def test_a_transaction(
    monkeypatch: pytest.MonkeyPatch, rises: bool, commits: bool, pieces: int, drawn: float
) -> None:
    life = Life(Drawn(0.49 if commits else 0.5, drawn, rises=rises, pieces=pieces))
    steps: list[Any] = []

    def noting(name: str) -> Callable[..., Any]:
        async def step(*args: Any, **named: Any) -> None:
            steps.append((name, *args, *named.items()))

        return step

    for name in ("_add", "_produce", "_commit_offset", "_end"):
        monkeypatch.setattr(life.client, name, noting(name))
    monkeypatch.setattr(transactions, "asyncio", stand_in(asyncio, sleep=life.sleep))
    life.drawn.asked.clear()
    await life.client._transact()
    parts = [0, 1][-pieces:]
    assert steps == [
        *[("_add", parts)][: not rises],
        *[("_produce", 1, 1)] * pieces,
        *[("_commit_offset", 1)][:commits],
        ("_end", 1, ("is_commit", drawn < 0.6)),
    ]
    limits = [("randrange", (1, 3)), ("randrange", (1, 4))]
    assert life.drawn.asked == limits + [("choice", parts)] * pieces
    assert {n: (one.fate, one.commits_offset) for n, one in life.client._transactions.items()} == {
        1: (Fate.UNKNOWN, commits)
    }
    assert life.slept == [0.25]
    life.client._transactions[2] = transactions._Transaction()
    life.drawn.numbers = [0.5]
    assert await life.client._write() == 3, "it has a number of its own"


class Admin:
    """It makes topics, or says that they are there."""

    said: list[Any]
    refusal: ErrorCode | None

    def __init__(self, bootstrap: str, settings: Any) -> None:
        self.topics = self.features = self
        self.said.append((bootstrap, settings.client_id))

    async def __aenter__(self) -> Admin:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def create(self, topic: Any) -> None:
        self.said.append(topic)
        if self.refusal is not None:
            raise KafkaError(self.refusal)

    async def update(self, levels: dict[str, int], kind: UpgradeType) -> None:
        self.said.append((levels, kind))


@pytest.mark.parametrize("rises", [False, True])
@pytest.mark.parametrize("plan", [THREE, CONSENSUS])
@pytest.mark.parametrize("refusal", [None, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.REQUEST_TIMED_OUT])
async def test_its_topic_is_made_once(
    monkeypatch: pytest.MonkeyPatch, rises: bool, plan: Plan, refusal: ErrorCode | None
) -> None:
    life = Life(Drawn(rises=rises), plan)
    assert life.drawn.asked == [("choice", [300, 1000, 100_000])]
    Admin.said, Admin.refusal = [], refusal
    steps: list[str] = []
    life.client._cluster = cast("Any", None)

    async def begin() -> None:
        assert life.client._cluster is cast("Any", life.cluster)
        steps.append("begin")

    async def look() -> None:
        steps.append("look")

    async def transact() -> None:
        steps.append("transact")
        life.world.stopping = len(steps) > 4

    for name, step in (("_begin_life", begin), ("_look_at_offset", look), ("_transact", transact)):
        monkeypatch.setattr(life.client, name, step)
    monkeypatch.setattr(transactions, "Admin", Admin)
    monkeypatch.setattr(transactions, "ClusterClient", lambda *_: life.cluster)
    life.drawn.pieces, is_refused = 2, refusal is ErrorCode.REQUEST_TIMED_OUT
    for _ in range(2):
        if is_refused:
            with pytest.raises(KafkaError):
                await life.client._live()
        else:
            await life.client._live()
    first, topic, *rest = Admin.said
    configs = {"internal.segment.bytes": "1000", "retention.ms": "-1"}
    by_consensus = {"replication.mode": "consensus"} if plan is CONSENSUS else {}
    assert first == ("h:1", "c")
    assert (topic.name, topic.partitions, topic.replication_factor) == ("c", 2, plan.replicas)
    assert topic.configs == configs | by_consensus
    assert life.client.is_made is not is_refused
    if is_refused:
        assert len(rest) == 2
        assert steps == []
        return
    assert rest == ([({TRANSACTION_VERSION: 2}, UpgradeType.UPGRADE)] if rises else [])
    assert steps == ["begin", "look", "transact", "transact", "begin", "look", "transact"]
    assert life.drawn.asked[1:] == [("randrange", (2, 30))] * 2
    assert life.cluster.asked == ["closed", "closed"]


@pytest.mark.parametrize("is_careless", [False, True])
@pytest.mark.parametrize("crashes", [0, 1])
def test_what_may_be_lost(is_careless: bool, crashes: int) -> None:
    settings = {"unclean.leader.election.enable": "true"} if is_careless else {}
    life = Life(Drawn(), THREE.replace(settings=settings))
    life.world.ledger.lossy_crashes = crashes
    assert life.client._plan.is_careless is is_careless
    assert life.client._may_be_lost is (is_careless or bool(crashes))


@pytest.mark.parametrize(
    ("drawn", "decides", "dies_before", "dies_after"),
    [
        ((0.3, 0.59, 0.3), True, False, False),
        ((0.3, 0.6), False, False, False),
        ((0.29,), False, True, False),
        ((0.3, 0.59, 0.29), True, False, True),
    ],
)
async def test_a_driver_decides_what_it_has_prepared_unless_it_dies(
    monkeypatch: pytest.MonkeyPatch, drawn: tuple[float, ...], decides: bool, dies_before: bool, dies_after: bool
) -> None:
    life = Life(Drawn(*drawn), kind=TwoPhaseClient)
    client = cast("TwoPhaseClient", life.client)
    assert (client._epochs_rise, client._prepared, client._decided) == (True, NOBODY, 0)
    monkeypatch.setattr("penstock.testing.simulator.two_phases.asyncio", stand_in(asyncio, sleep=life.sleep))
    client._transactions = {1: transactions._Transaction(), 2: transactions._Transaction()}
    client._producer = (3, 4)
    ended: list[Any] = []

    async def write() -> int:
        return 2

    async def end(number: int, *, is_commit: bool) -> None:
        assert client._prepared == NOBODY
        ended.append((number, is_commit))

    monkeypatch.setattr(client, "_write", write)
    monkeypatch.setattr(client, "_end", end)
    life.drawn.asked.clear()
    if dies_before or dies_after:
        with pytest.raises(DriverDiedError):
            await client._transact()
        assert life.drawn.asked == [("choice", [0, 7.5])]
        assert client._prepared == (3, 4)
    else:
        await client._transact()
        assert ended == [(2, decides)]
    assert LONG_S == 7.5
    pauses = [0.25] * (1 + decides)
    assert life.slept == [*pauses, LONG_S][: len(pauses) + (dies_before or dies_after)]
    assert client._decided == (2 if decides else 0)
    assert client._transactions[2].fate is (Fate.COMMITTED if decides else Fate.UNKNOWN)
    assert life.notes == (["transaction 2 is decided"] if decides else [])
