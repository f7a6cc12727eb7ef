"""What a driver asks of the cluster to decide about a batch: call by call, also where another driver comes between."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.client.blocking.produce import ProducerIdentity
from penstock.client.values import TransactionName
from penstock.pipeline.datasource import decider as module
from penstock.pipeline.datasource.decider import Decider
from penstock.pipeline.datasource.decisions_topic import DECIDING_TIMEOUT_MS
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.once.decision import Decision
from penstock.pipeline.once.names import ids_of
from penstock.protocol.errors import ErrorCode, KafkaError

A, B, C = (TransactionName(name, 7, 3, True) for name in "abc")


class Cluster:
    """Coordinators and the topic of decisions: notes what it is asked."""

    def __init__(self) -> None:
        self.settings = "settings"
        self.lines: list[str] = []
        self.epoch = 0
        self.last: Decision | None = None
        self.open = [A, B, C]
        self.refuses: dict[str, Any] = {}
        """What comes of the end of a transaction, by its id; of a decision with `write`."""

    def take(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines

    # Coordinators

    def begin(self, name: str, timeout_ms: int) -> ProducerIdentity:
        self.lines.append(f"begin {name} {timeout_ms}")
        self.epoch += 1
        return ProducerIdentity(1, self.epoch, name)

    def open_ones(self, prefix: str, asked_for: Any) -> list[TransactionName]:
        self.lines.append(f"open {prefix} {[one.transactional_id for one in asked_for]}")
        return self.open

    def end(self, name: TransactionName, *, commits: bool, limit_ms: int | None = None) -> bool | None:
        is_deciders = name.transactional_id not in "abc"
        assert limit_ms == (DECIDING_TIMEOUT_MS if is_deciders else None), "it is written within that, or never"
        self.lines.append(f"{'commit' if commits else 'abort'} {name.transactional_id}/{name.producer_id}/{name.epoch}")
        answer = self.refuses.get(name.transactional_id, True)
        if isinstance(answer, Exception):
            raise answer
        return bool(answer) if answer is not None else None


class Topic:
    def __init__(self, cluster: Cluster, name: str, query: str, partition: Any = None) -> None:
        cluster.lines.append(f"topic {name} {query}{'' if partition is None else f' at {partition}'}")
        self._cluster = cluster
        self.partition = (name, 2)

    def last(self) -> Decision | None:
        self._cluster.lines.append("look")
        return self._cluster.last

    def write(self, identity: ProducerIdentity, decision: Decision) -> None:
        self._cluster.lines.append(f"write {decision.batch} as {identity.epoch}")
        if error := self._cluster.refuses.get("write"):
            raise error
        self._cluster.last = decision

    def forget(self) -> None:
        self._cluster.lines.append("forget")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(module, "TransactionCoordinators", lambda cluster: cluster)
    monkeypatch.setattr(module, "DecisionsTopic", Topic)
    monkeypatch.setattr(module, "_decided", type(module._decided)())
    return Cluster()


def decider(cluster: Any, query: str = "q") -> Decider:
    return Decider(cluster, "decisions", query)


def test_it_looks_up_nothing_where_nobody_has_decided_since(cluster: Cluster) -> None:
    first = decider(cluster)
    assert first.decide(4, [A, B]) == Decision(4, (A, B))
    begin, looked, listed, *rest = [line for line in cluster.take() if not line.startswith("topic")]
    assert (looked, rest) == ("look", ["write 4 as 1", f"commit {begin.split()[1]}/1/1", *commits(A, B), "abort c/7/3"])
    assert listed.endswith("['a', 'b']")
    cluster.open = [C]
    assert first.decide(5, [C]) == Decision(5, (C,))
    said = cluster.take()
    assert "look" not in said
    assert "topic decisions q at ('decisions', 2)" in said
    cluster.open = []
    assert decider(cluster).decide(6, []) == Decision(6, ())
    assert "look" not in cluster.take(), "of the same process"
    cluster.epoch += 1
    assert first.decide(7, []) == Decision(7, ())
    assert "look" in cluster.take(), "another process was here"
    assert decider(cluster, "other").decide(8, []) == Decision(8, ())
    assert "look" in cluster.take(), "of another query"


@pytest.mark.parametrize(("left_ms", "is_decided"), [(1, True), (0, False)])
def test_a_batch_is_decided_while_there_is_time_to_carry_it_out(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, left_ms: int, is_decided: bool
) -> None:
    """The time counts when the decision is written: from its transaction's end on it stands."""
    now_ms = [1_000]
    monkeypatch.setattr(module, "now_ms", lambda: now_ms[0])
    monkeypatch.setattr(Topic, "write", lambda *_: now_ms.append(now_ms.pop() + 500))
    cluster.open = [A, B]
    if is_decided:
        assert decider(cluster).decide(4, [A, B], 1_500 + left_ms) == Decision(4, (A, B))
        assert cluster.take()[-2:] == commits(A, B)
        return
    with pytest.raises(PipelineError, match="batch 4 was not decided, as it could not be carried out in time") as told:
        decider(cluster).decide(4, [A, B], 1_500 + left_ms)
    assert "The batch runs again, and nothing is lost" in str(told.value)
    assert "kafka.transaction.timeout.ms" in str(told.value)
    begun, *_, ended, one, other = cluster.take()
    assert [ended, one, other] == [f"abort {begun.split()[1]}/1/1", "abort a/7/3", "abort b/7/3"]


def commits(*names: TransactionName) -> list[str]:
    return [f"commit {one.transactional_id}/7/3" for one in names]


def test_what_it_remembers_is_looked_up_once(cluster: Cluster) -> None:
    """Behind a decision that is lost it looks whether another one has come to be known."""
    first = decider(cluster)
    first.decide(4, [])
    cluster.take()
    cluster.open, cluster.refuses = [A], {"a": False}
    with pytest.raises(
        PipelineError, match=r"Query q: batch 5 was decided, and its transaction a is aborted: somebody"
    ):
        first.decide(5, [A])
    assert cluster.take().count("look") == 1


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_one_process_decides(cluster: Cluster, code: ErrorCode) -> None:
    cluster.open = []
    cluster.refuses = {"write": KafkaError(code)}
    with pytest.raises(PipelineError, match="batch 4 is not decided: another process has begun to decide") as raised:
        decider(cluster).decide(4, [])
    assert "The batch runs again, and nothing is lost" in str(raised.value)
    assert "begin with a new one" not in str(raised.value), "of a checkpoint that is as it should be"
    cluster.refuses = {cluster.lines[0].split()[1]: False}
    with pytest.raises(PipelineError, match="another process has begun to decide"):
        decider(cluster).decide(4, [])
    cluster.refuses, cluster.last = {"write": KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)}, None
    with pytest.raises(KafkaError):
        decider(cluster).decide(4, [])
    assert not module._decided


def test_what_fails_is_told_with_its_cure(cluster: Cluster) -> None:
    cluster.open = [B]
    with pytest.raises(
        PipelineError, match=r"Query q: a was aborted before batch 4 was decided\. Its tasks took longer"
    ):
        decider(cluster).decide(4, [A])
    cluster.last = Decision(9, ())
    with pytest.raises(PipelineError, match=r"batch 4 is over: another process has decided about batch 9\. Two runs"):
        decider(cluster).decide(4, [A])
    cluster.last, cluster.refuses = Decision(4, (A,)), {"a": None}
    with pytest.raises(PipelineError, match="is forgotten: committed or aborted"):
        decider(cluster).decide(4, [A])


@pytest.mark.parametrize(
    ("last", "aborted"),
    [
        (None, ["abort a/7/3", "abort b/7/3"]),
        (Decision(3, (A, B)), ["abort a/7/3", "abort b/7/3"]),
        (Decision(4, (A,)), ["abort b/7/3"]),
        (Decision(5, ()), []),
    ],
)
def test_an_attempt_that_has_failed_ends_what_is_not_decided(
    cluster: Cluster, last: Decision | None, aborted: list[str]
) -> None:
    cluster.last = last
    decider(cluster).give_up(4, [A, B])
    assert [line for line in cluster.take() if line.startswith(("abort", "commit", "write"))] == aborted


def test_who_settles_says_whether_it_is_carried_out(cluster: Cluster) -> None:
    asked: list[str] = []

    def all_open(prefix: str) -> list[TransactionName]:
        asked.append(prefix)
        return cluster.open

    cluster.all_open = all_open  # type: ignore[attr-defined]
    cluster.last = Decision(4, (A,))
    assert decider(cluster).settle()
    assert asked == [ids_of("q")], "also those of which nobody has told it"
    assert [line for line in cluster.take() if line.startswith(("abort", "commit"))][-3:] == [
        "commit a/7/3",
        "abort b/7/3",
        "abort c/7/3",
    ]
    cluster.refuses = {"write": KafkaError(ErrorCode.PRODUCER_FENCED)}
    assert not decider(cluster).settle()
    assert "commit a/7/3" not in cluster.take()


def test_what_is_forgotten_is_looked_up_again(cluster: Cluster) -> None:
    cluster.open = []
    one = decider(cluster)
    one.decide(4, [])
    one.forget()
    assert cluster.take()[-1] == "forget"
    one.decide(5, [])
    assert "look" in cluster.take()


def test_only_so_many_queries_are_remembered(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_QUERIES", 2)
    cluster.open = []
    for query in ("first", "second", "third"):
        cluster.last = None
        decider(cluster, query).decide(1, [])
    assert [query for *_, query in module._decided] == ["second", "third"]
