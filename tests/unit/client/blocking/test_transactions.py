"""What is asked about transactions, of whom, and what each answer means."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.stand_in import stand_in

from penstock.client.blocking import transactions as transactions_module
from penstock.client.blocking.produce import ProducerIdentity
from penstock.client.blocking.transactions import (
    IDS_AT_ONCE,
    WITHOUT_TIMEOUT_MS,
    TransactionCoordinators,
    _id_of_each_partition,
)
from penstock.client.values import TransactionName
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.hashing import coordinator_partition
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from penstock.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from penstock.protocol.messages.list_transactions import TransactionState as Listed
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message

NAME = TransactionName("id", 7, 3)
NOT_FOUND, MOVED = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.NOT_COORDINATOR


class Broker:
    """Notes what it is asked; `scripts` are answers, `holds` its open transactions by id."""

    def __init__(self, version: int = 6) -> None:
        self.version = version
        self.asked: list[tuple[ApiKey, Any, int | None]] = []
        self.scripts: list[Message] = []
        self.holds: dict[str, TransactionState | ErrorCode] = {}
        self.listed: list[Listed] = []

    def version_of(self, key: ApiKey, newest: int | None = None) -> int:
        assert newest == (6 if key is ApiKey.INIT_PRODUCER_ID else None)
        return self.version

    def request(self, key: ApiKey, message: Any, answer: type[Message], version: int | None = None) -> Any:
        self.asked.append((key, message, version))
        if self.scripts:
            return self.scripts.pop(0)
        if isinstance(message, ListTransactionsRequest):
            return ListTransactionsResponse(transaction_states=self.listed)
        assert isinstance(message, DescribeTransactionsRequest)
        found = [self.holds.get(name, NOT_FOUND) for name in message.transactional_ids]
        return DescribeTransactionsResponse(
            transaction_states=[
                TransactionState(transactional_id=name, error_code=it) if isinstance(it, ErrorCode) else it
                for name, it in zip(message.transactional_ids, found, strict=True)
            ]
        )


class Cluster:
    """What may pass is tried once more."""

    def __init__(self, *brokers: Broker, partitions: int = 0) -> None:
        self.brokers = {Address("h", number): one for number, one in enumerate(brokers or [Broker()])}
        rows = {at.port: SimpleNamespace(address=at) for at in self.brokers}
        self.metadata = SimpleNamespace(brokers=rows)
        self.partitions, self.looks = partitions, 0
        self.limits_ms: list[int | None] = []
        self.coordinates: dict[str, int] = {}

    @property
    def one(self) -> Broker:
        return next(iter(self.brokers.values()))

    def coordinator_of(self, key: str, kind: int) -> Broker:
        assert kind == 1
        return self.brokers[Address("h", self.coordinates.get(key, 0))]

    def connection(self, address: Address) -> Broker:
        return self.brokers[address]

    def look_at_brokers(self) -> None:
        self.looks += 1

    def partitions_there(self, names: list[str]) -> dict[str, list[int]]:
        assert names == ["__transaction_state"]
        return {"__transaction_state": list(range(self.partitions))} if self.partitions else {}

    def retried(self, attempt: Callable[[], Any], limit_ms: int | None = None) -> Any:
        self.limits_ms.append(limit_ms)
        try:
            return attempt()
        except KafkaError as error:
            if not error.retriable:
                raise
            return attempt()


def coordinators(cluster: Cluster) -> TransactionCoordinators:
    return TransactionCoordinators(cluster)  # type: ignore[arg-type]


def state(name: str, what: str = "Ongoing", timeout_ms: int = 5, epoch: int = 3) -> TransactionState:
    return TransactionState(
        transactional_id=name,
        transaction_state=what,
        transaction_timeout_ms=timeout_ms,
        producer_id=7,
        producer_epoch=epoch,
    )


def identified(**more: Any) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=7, producer_epoch=3, **more)


# -- who writes -------------------------------------------------------------------------------------------------------


def test_who_begins_is_the_producer_of_that_id() -> None:
    cluster = Cluster()
    cluster.one.scripts = [identified()]
    assert coordinators(cluster).begin("id", 5_000) == ProducerIdentity(7, 3, "id")
    request = InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=5_000)
    assert cluster.one.asked == [(ApiKey.INIT_PRODUCER_ID, request, None)]


@pytest.mark.parametrize(
    ("code", "about"),
    [
        (
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            "'id': 5000 ms .*are more than the brokers' transaction.max.timeout.ms$",
        ),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "beginning as 'id'$"),
    ],
)
def test_who_may_not_begin_is_told_why(code: ErrorCode, about: str) -> None:
    cluster = Cluster()
    cluster.one.scripts = [identified(error_code=code)]
    with pytest.raises(KafkaError, match=f"{code.name}: .*{about}"):
        coordinators(cluster).begin("id", 5_000)


@pytest.mark.parametrize("version", [5, 6])
@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REQUEST])
def test_what_is_kept_is_so_where_the_cluster_does_that(version: int, code: ErrorCode) -> None:
    cluster = Cluster(Broker(version))
    cluster.one.scripts = [identified(error_code=code)]
    if version == 6 and code is ErrorCode.INVALID_REQUEST:
        with pytest.raises(KafkaError, match="INVALID_REQUEST"):
            coordinators(cluster).begin_kept("id")
    else:
        found = coordinators(cluster).begin_kept("id")
        assert found == (ProducerIdentity(7, 3, "id") if version == 6 and not code else None)
    request = InitProducerIdRequest(transactional_id="id", enable2_pc=True)
    assert cluster.one.asked == ([(ApiKey.INIT_PRODUCER_ID, request, 6)] if version == 6 else [])


def added(*codes: ErrorCode) -> AddPartitionsToTxnResponse:
    rows = [AddPartitionsToTxnPartitionResult(partition_index=1, partition_error_code=code) for code in codes]
    result = AddPartitionsToTxnTopicResult(name="b", results_by_partition=rows)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[result])


def test_partitions_are_added_once() -> None:
    cluster, identity = Cluster(), ProducerIdentity(7, 3, "id")
    cluster.one.scripts = [added(ErrorCode.NONE), added()]
    asks = coordinators(cluster)
    for partitions in ([("b", 1), ("a", 2), ("b", 0)], [("b", 0)], [], [("b", 1), ("b", 4)]):
        asks.add(identity, partitions)
    topics = [
        [AddPartitionsToTxnTopic(name="a", partitions=[2]), AddPartitionsToTxnTopic(name="b", partitions=[0, 1])],
        [AddPartitionsToTxnTopic(name="b", partitions=[4])],
    ]
    requests = [
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="id",
            v3_and_below_producer_id=7,
            v3_and_below_producer_epoch=3,
            v3_and_below_topics=rows,
        )
        for rows in topics
    ]
    assert cluster.one.asked == [(ApiKey.ADD_PARTITIONS_TO_TXN, request, None) for request in requests]
    assert list(identity.added) == [("b", 1), ("a", 2), ("b", 0), ("b", 4)]


@pytest.mark.parametrize(
    "codes",
    [
        [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.TOPIC_AUTHORIZATION_FAILED],
        [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.NONE],
    ],
)
def test_partitions_that_are_refused_are_not_added(codes: list[ErrorCode]) -> None:
    cluster, identity = Cluster(), ProducerIdentity(7, 3, "id")
    cluster.one.scripts = [added(*codes)]
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED: partitions for the transaction of 'id'"):
        coordinators(cluster).add(identity, [("b", 1)])
    assert not identity.added


# -- ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commits", [False, True])
@pytest.mark.parametrize(
    ("code", "is_kept", "ended"),
    [
        (ErrorCode.NONE, False, True),
        (ErrorCode.INVALID_TXN_STATE, False, False),
        (ErrorCode.PRODUCER_FENCED, False, False),
        (ErrorCode.INVALID_PRODUCER_EPOCH, True, False),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, False, None),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, True, True),
    ],
)
def test_what_the_answer_to_an_end_means(code: ErrorCode, ended: bool | None, *, commits: bool, is_kept: bool) -> None:
    cluster = Cluster()
    cluster.one.scripts = [EndTxnResponse(error_code=code)]
    name = NAME.replace(is_kept=is_kept)
    assert coordinators(cluster).end(name, commits=commits, limit_ms=9) is ended
    request = EndTxnRequest(transactional_id="id", producer_id=7, producer_epoch=3, committed=commits)
    assert cluster.one.asked == [(ApiKey.END_TXN, request, None)]
    assert cluster.limits_ms == [9]


def test_an_end_that_is_refused_for_good_is_raised() -> None:
    cluster = Cluster()
    cluster.one.scripts = [EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)]
    with pytest.raises(KafkaError, match="AUTHORIZATION_FAILED: the end of the transaction of 'id'"):
        coordinators(cluster).end(NAME, commits=True)
    assert cluster.limits_ms == [None]


@pytest.mark.parametrize(("count", "asks", "pauses"), [(0, 1, 0), (49, 50, 49), (50, 51, 50), (100, 100, 100)])
def test_while_markers_are_written_it_is_asked_again_in_a_moment(
    monkeypatch: pytest.MonkeyPatch, count: int, asks: int, pauses: int
) -> None:
    paused: list[float] = []
    monkeypatch.setattr(transactions_module, "time", stand_in(time, sleep=paused.append))
    cluster = Cluster()
    busy = EndTxnResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)
    cluster.one.scripts = [*[busy] * count, EndTxnResponse()]
    if count == 100:
        with pytest.raises(KafkaError, match="CONCURRENT_TRANSACTIONS: transactional id 'id'"):
            coordinators(cluster).end(NAME, commits=True)
    else:
        assert coordinators(cluster).end(NAME, commits=True)
    assert (len(cluster.one.asked), paused) == (asks, [0.02] * pauses)


@pytest.mark.parametrize(("code", "asks"), [(MOVED, 2), (ErrorCode.INVALID_TXN_STATE, 1), (ErrorCode.NONE, 1)])
def test_a_refusal_that_may_pass_is_asked_again(code: ErrorCode, asks: int) -> None:
    cluster = Cluster()
    cluster.one.scripts = [EndTxnResponse(error_code=code), EndTxnResponse()]
    coordinators(cluster).end(NAME, commits=True)
    assert len(cluster.one.asked) == asks


# -- which are open ---------------------------------------------------------------------------------------------------


def listed(name: str, what: str = "Ongoing") -> Listed:
    return Listed(transactional_id=name, transaction_state=what)


@pytest.mark.parametrize("version", [1, 2])
def test_open_ones_are_those_of_all_brokers_that_begin_so(version: int) -> None:
    first, second = Broker(version), Broker(version)
    first.listed = [listed("a.1"), listed("a.2", "PrepareCommit"), listed("b"), listed("a.gone"), listed("a.ended")]
    first.holds = {"a.1": state("a.1"), "a.ended": state("a.ended", "CompleteCommit")}
    second.listed = [listed("a.3"), listed("xa.4")]
    second.holds = {"a.3": state("a.3", timeout_ms=WITHOUT_TIMEOUT_MS)}
    cluster = Cluster(first, second)
    assert coordinators(cluster).open_ones("a.") == [TransactionName("a.1", 7, 3), TransactionName("a.3", 7, 3, True)]
    asked = ListTransactionsRequest(
        state_filters=["Ongoing"], transactional_id_pattern="a\\..*" if version == 2 else None
    )
    described = DescribeTransactionsRequest(transactional_ids=["a.1", "a.gone", "a.ended"])
    assert first.asked == [
        (ApiKey.LIST_TRANSACTIONS, asked, None),
        (ApiKey.DESCRIBE_TRANSACTIONS, described, None),
    ]
    assert cluster.looks == 1


def test_many_are_described_in_parts() -> None:
    cluster = Cluster()
    names = [f"a{number:04}" for number in range(IDS_AT_ONCE + 1)]
    cluster.one.listed = [listed(name) for name in names]
    cluster.one.holds = {name: state(name) for name in names}
    assert [one.transactional_id for one in coordinators(cluster).open_ones("a")] == names
    parts = [request.transactional_ids for key, request, _ in cluster.one.asked if key is ApiKey.DESCRIBE_TRANSACTIONS]
    assert parts == [names[:IDS_AT_ONCE], names[IDS_AT_ONCE:]]


def test_a_list_or_a_transaction_that_is_refused_is_told() -> None:
    cluster = Cluster()
    cluster.one.scripts = [ListTransactionsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]
    with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED: listing transactions"):
        coordinators(cluster).open_ones("a")
    cluster.one.listed, cluster.one.holds = [listed("a")], {"a": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    with pytest.raises(KafkaError, match="AUTHORIZATION_FAILED: the transaction of 'a'"):
        coordinators(cluster).open_ones("a")


def test_who_is_asked_for_and_in_no_list_is_asked_of_its_coordinator() -> None:
    lists, moved_to = Broker(2), Broker(2)
    lists.listed, lists.holds = [listed("a1")], {"a1": state("a1")}
    moved_to.holds = {"a2": state("a2"), "a3": state("a3", epoch=4), "a5": state("a5", "Empty")}
    cluster = Cluster(lists, moved_to)
    cluster.coordinates = dict.fromkeys(["a2", "a3", "a4", "a5"], 1)
    wanted = [TransactionName(f"a{number}", 7, 3) for number in range(1, 6)]
    found = coordinators(cluster).open_ones("a", wanted)
    assert found == [wanted[0], wanted[1]], "of the others one is later, one unknown and one over"
    alone = [request.transactional_ids for key, request, _ in moved_to.asked if key is ApiKey.DESCRIBE_TRANSACTIONS]
    assert alone == [["a2"], ["a3"], ["a4"], ["a5"]]
    moved_to.holds["a2"] = MOVED
    with pytest.raises(KafkaError, match="NOT_COORDINATOR: transactional id 'a2'"):
        coordinators(cluster).open_ones("a", wanted[1:2])


@pytest.mark.parametrize("count", [0, 1, 2, 5, 16])
def test_each_partition_of_coordinators_is_probed_by_one_id(count: int) -> None:
    found = _id_of_each_partition("p-", count)
    assert sorted(coordinator_partition(name, count) for name in found) == list(range(count))
    numbers = [int(name.removeprefix("p-")) for name in found]
    assert numbers == sorted(numbers)
    firsts = {coordinator_partition(f"p-{number}", count) for number in range(min(numbers, default=0))}
    assert firsts == set()


def probing() -> tuple[Cluster, list[str]]:
    """Two brokers, of which the first coordinates all of two partitions, and the second none."""
    first, second = Broker(2), Broker(2)
    probes = _id_of_each_partition("anobody-", 2)
    first.listed, first.holds = [listed("a1")], {"a1": state("a1")}
    second.holds = dict.fromkeys(probes, MOVED)
    return Cluster(first, second, partitions=2), probes


def test_all_are_told_where_each_coordinator_is_before_the_lists_and_behind_them() -> None:
    cluster, probes = probing()
    assert coordinators(cluster).all_open("a") == [TransactionName("a1", 7, 3)]
    first = cluster.one
    assert [key for key, *_ in first.asked] == [
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.DESCRIBE_TRANSACTIONS,
    ]
    assert first.asked[0][1].transactional_ids == probes
    assert cluster.looks == 3


@pytest.mark.parametrize("code", [MOVED, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_partition_without_a_coordinator_is_waited_for(code: ErrorCode) -> None:
    cluster, probes = probing()
    cluster.one.holds[probes[1]] = code
    with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE: some transactions have no coordinator"):
        coordinators(cluster).all_open("a")


def test_lists_during_which_a_coordinator_moved_are_asked_for_again() -> None:
    cluster, probes = probing()
    second = cluster.brokers[Address("h", 1)]
    listing = cluster.one.request

    def moves(key: ApiKey, *rest: Any) -> Any:
        if key is ApiKey.LIST_TRANSACTIONS:
            second.holds.pop(probes[0], None)
        return listing(key, *rest)

    cluster.one.request = moves  # type: ignore[method-assign, assignment]
    assert coordinators(cluster).all_open("a") == [TransactionName("a1", 7, 3)]
    assert [key for key, *_ in cluster.one.asked].count(ApiKey.LIST_TRANSACTIONS) == 2


def test_who_may_not_know_the_partitions_has_the_lists_alone() -> None:
    cluster, _ = probing()
    cluster.partitions = 0
    assert coordinators(cluster).all_open("a") == [TransactionName("a1", 7, 3)]
    assert [key for key, *_ in cluster.one.asked] == [ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_TRANSACTIONS]
