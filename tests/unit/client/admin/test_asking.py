"""What calls about users, quotas and transactions ask, and which of what they hear is told."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.admin import transactions as transactions_module
from penstock.client.admin.quotas import AnyName, EntityQuotas, QuotaAdmin
from penstock.client.admin.transactions import (
    ProducerDescription,
    TransactionAdmin,
    TransactionDescription,
    TransactionListing,
)
from penstock.client.admin.users import UserAdmin
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.alter_client_quotas import AlterClientQuotasResponse
from penstock.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from penstock.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from penstock.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from penstock.protocol.sasl.scram import MAX_ITERATIONS, MIN_ITERATIONS
from penstock.protocol.secret import Secret

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


class Cluster:
    """Gives these answers; what may pass is tried once more."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), list[Any]()
        self.settings = SimpleNamespace(now_ms=lambda: 10_000)

    async def to_any(self, request: Any, answer: object) -> Any:
        self.asked.append(request)
        return self.answers.pop(0)

    to_controller = to_any

    async def retrying(self, attempt: Callable[[], Any]) -> Any:
        try:
            return await attempt()
        except KafkaError as error:
            if not error.retriable:
                raise
            return await attempt()


# -- users ------------------------------------------------------------------------------------------------------------


def users(**of: dict[int, int]) -> DescribeUserScramCredentialsResponse:
    """The iterations by user and the number of a mechanism."""
    results = [
        DescribeUserScramCredentialsResult(
            user=name,
            credential_infos=[CredentialInfo(mechanism=number, iterations=count) for number, count in infos.items()],
        )
        for name, infos in of.items()
    ]
    return DescribeUserScramCredentialsResponse(results=results)


@pytest.mark.parametrize("names", [(), ("bob", "ada")])
async def test_users_are_told_in_their_order_with_the_mechanisms_that_are_known(names: tuple[str, ...]) -> None:
    cluster = Cluster(users(bob={1: 4_096, 9: 5}, ada={2: 8_192}))
    found = await UserAdmin(cluster).describe(names)  # type: ignore[arg-type]
    assert list(found.items()) == [("ada", {"SCRAM-SHA-512": 8_192}), ("bob", {"SCRAM-SHA-256": 4_096})]
    (request,) = cluster.asked
    assert (None if request.users is None else [one.name for one in request.users]) == (list(names) or None)


async def test_a_user_that_is_refused_is_told() -> None:
    one = users(ada={})
    one.results[0].error_code, one.results[0].error_message = ErrorCode.RESOURCE_NOT_FOUND, "no ada"
    whole = DescribeUserScramCredentialsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message="no")
    for answer, text in ((one, "RESOURCE_NOT_FOUND: no ada"), (whole, "CLUSTER_AUTHORIZATION_FAILED: no")):
        with pytest.raises(KafkaError, match=text):
            await UserAdmin(Cluster(answer)).describe()  # type: ignore[arg-type]


def altered(code: int = 0) -> AlterUserScramCredentialsResponse:
    result = AlterUserScramCredentialsResult(user="ada", error_code=code, error_message="so")
    return AlterUserScramCredentialsResponse(results=[result])


@pytest.mark.parametrize(
    ("mechanism", "iterations", "password", "text"),
    [
        ("PLAIN", MIN_ITERATIONS, "engine", "PLAIN is no mechanism of SCRAM: take one of"),
        ("SCRAM-SHA-256", MIN_ITERATIONS - 1, "engine", "4095 iterations: 4096 to 16384 are allowed"),
        ("SCRAM-SHA-256", MAX_ITERATIONS + 1, "engine", "16385 iterations"),
        ("SCRAM-SHA-256", MIN_ITERATIONS, "", "the password is empty"),
    ],
)
async def test_what_no_cluster_takes_is_not_asked(mechanism: str, iterations: int, password: str, text: str) -> None:
    cluster = Cluster()
    with pytest.raises(ValueError, match=text):
        await UserAdmin(cluster).set_password("ada", Secret(password), mechanism, iterations)  # type: ignore[arg-type]
    assert cluster.asked == []


@pytest.mark.parametrize("iterations", [MIN_ITERATIONS, MAX_ITERATIONS])
async def test_what_is_made_of_a_password(iterations: int) -> None:
    cluster = Cluster(altered())
    await UserAdmin(cluster).set_password("ada", Secret("engine"), iterations=iterations)  # type: ignore[arg-type]
    (row,) = cluster.asked[0].upsertions
    assert (row.name, row.mechanism, row.iterations, len(row.salted_password)) == ("ada", 2, iterations, 64)
    assert cluster.asked[0].deletions == []


@pytest.mark.parametrize(
    ("answers", "raises"),
    [
        ([0], False),
        ([ErrorCode.RESOURCE_NOT_FOUND], True),
        ([ErrorCode.NOT_CONTROLLER, ErrorCode.RESOURCE_NOT_FOUND], False),
        ([ErrorCode.NOT_CONTROLLER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED], True),
    ],
)
async def test_one_that_is_gone_after_a_lost_answer_was_removed(answers: list[int], *, raises: bool) -> None:
    cluster = Cluster(*map(altered, answers))
    removing = UserAdmin(cluster).remove("ada", "SCRAM-SHA-256")  # type: ignore[arg-type]
    if raises:
        with pytest.raises(KafkaError, match="so"):
            await removing
    else:
        await removing
    assert [(one.name, one.mechanism) for one in cluster.asked[-1].deletions] == [("ada", 1)]


# -- quotas -----------------------------------------------------------------------------------------------------------


def entry(values: dict[str, float], **entity: str | None) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        values=[ValueData(key=key, value=value) for key, value in values.items()],
    )


@pytest.mark.parametrize("strict", [False, True])
async def test_which_quotas_are_asked_for_and_in_which_order_they_are_told(*, strict: bool) -> None:
    rows = [entry({"b": 1, "a": 2}, user="z"), entry({}, user=None), entry({}, ip="x")]
    cluster = Cluster(DescribeClientQuotasResponse(entries=rows), DescribeClientQuotasResponse(entries=None))
    made = QuotaAdmin(cluster)  # type: ignore[arg-type]
    found = await made.describe({"user": "z", "client-id": None, "ip": AnyName()}, strict=strict)
    assert [one.entity for one in found] == [{"ip": "x"}, {"user": None}, {"user": "z"}]
    assert list(found[2].quotas.items()) == [("a", 2), ("b", 1)]
    assert await made.describe() == []
    asked = [[(one.entity_type, one.match_type, one.match) for one in request.components] for request in cluster.asked]
    assert asked == [[("user", 0, "z"), ("client-id", 1, None), ("ip", 2, None)], []]
    assert [request.strict for request in cluster.asked] == [strict, False]
    assert EntityQuotas({}, {}) == EntityQuotas({}, {})


@pytest.mark.parametrize("validate_only", [False, True])
async def test_what_is_altered_of_quotas(*, validate_only: bool) -> None:
    cluster = Cluster(AlterClientQuotasResponse())
    made = QuotaAdmin(cluster)  # type: ignore[arg-type]
    await made.alter({"user": "z", "ip": None}, {"a": 1.5, "b": None}, validate_only=validate_only)
    (request,) = cluster.asked
    (row,) = request.entries
    assert [(one.entity_type, one.entity_name) for one in row.entity] == [("user", "z"), ("ip", None)]
    assert [(one.key, one.value, one.remove) for one in row.ops] == [("a", 1.5, False), ("b", 0.0, True)]
    assert request.validate_only == validate_only


# -- transactions -----------------------------------------------------------------------------------------------------


def described(name: str, producer_id: int, *places: TopicPartition, **more: Any) -> TransactionDescription:
    usual: dict[str, Any] = {"producer_epoch": 1, "state": "Ongoing", "timeout_ms": 5, "start_ms": 0}
    return TransactionDescription(name, 1, producer_id, partitions=places, **(usual | more))


def producer(producer_id: int, last_ms: int, start: int) -> ProducerDescription:
    return ProducerDescription(producer_id, 1, 0, 0, last_ms, start)


async def test_a_transaction_hangs_that_is_old_and_of_which_no_coordinator_knows() -> None:
    made = TransactionAdmin(Cluster())  # type: ignore[arg-type]
    asked: list[Any] = []
    known = {
        P: [
            producer(1, 8_999, 0),  # older than a second, and nobody's
            producer(2, 9_000, 0),  # not older
            producer(3, 0, -1),  # none is open
            producer(4, 0, 5),  # its coordinator knows
            producer(5, 0, 5),  # its coordinator knows of another partition
        ],
        Q: [producer(5, 0, 5)],
    }

    async def producers(partitions: Any, broker_id: int | None) -> Any:
        asked.append((partitions, broker_id))
        return known

    async def listings(*, producer_ids: Any) -> Any:
        asked.append(producer_ids)
        return [TransactionListing(name, 1, 0, "Ongoing") for name in ("four", "five")]

    async def describe(name: str) -> Any:
        return {"four": described("four", 4, P), "five": described("five", 5, Q)}[name]

    made.producers, made.listings, made.describe = producers, listings, describe  # type: ignore[method-assign, assignment]
    assert await made.hanging([P, Q], 1_000, 7) == {P: [known[P][0], known[P][4]]}
    assert asked == [([P, Q], 7), {1, 4, 5}]
    known = {P: [producer(2, 9_500, 0)]}
    assert await made.hanging([P], 1_000) == {}
    assert asked[2:] == [([P], None)], "nobody is asked where none is old"


async def test_those_that_are_decided_elsewhere_are_ongoing_and_have_no_time_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transactions_module, "IDS_AT_ONCE", 2)
    made, asked = TransactionAdmin(Cluster()), list[str]()  # type: ignore[arg-type]
    never = 2**31 - 1
    rows = {
        "a": described("a", 1, timeout_ms=never),
        "b": described("b", 1, timeout_ms=never - 1),
        "c": described("c", 1, timeout_ms=never, state="PrepareCommit"),
        "d": described("d", 1, timeout_ms=never),
    }

    async def listings() -> Any:
        names = {**dict.fromkeys(rows, "Ongoing"), "e": "Empty"}
        return [TransactionListing(name, 1, 0, state) for name, state in names.items()]

    async def describe(name: str) -> Any:
        asked.append(name)
        return rows[name]

    made.listings, made.describe = listings, describe  # type: ignore[method-assign, assignment]
    assert await made.prepared() == [rows["a"], rows["d"]]
    assert asked == ["a", "b", "c", "d"]
