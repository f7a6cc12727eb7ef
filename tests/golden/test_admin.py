"""The transcript of the admin client: what each call asks, and what it makes of an answer.

A fake broker answers with a sample whose fields all have values of their own, so that none is taken for another. A call
stands as it is written in Python. Of a message those fields are shown that are not as they are by default.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.golden.shown import said
from tests.unit.client.admin.test_refusals import OF_THE_CLUSTER, Answering, methods
from tests.unit.client.fake_broker import FakeBroker, Reply, fake_broker
from tests.unit.client.fake_cluster import NODE_ID

from penstock.client import values
from penstock.client.admin import Admin, configs, features, partitions, quorum, quotas, share_groups, topics, users
from penstock.client.settings import ClientSettings
from penstock.protocol import acls
from penstock.protocol.errors import KafkaError
from penstock.protocol.requests import own_apis, share_progress
from penstock.protocol.requests.api import api_of
from penstock.protocol.requests.framing import RequestHeader
from penstock.protocol.schema import Field, Message
from penstock.protocol.secret import Secret

NAMES: dict[str, Any] = {"UUID": UUID, "Secret": Secret, "T": values.TopicPartition("t", 0)}
for module in (
    values,
    configs,
    features,
    partitions,
    quorum,
    quotas,
    share_groups,
    topics,
    acls,
    own_apis,
    share_progress,
):
    NAMES |= {name: it for name, it in vars(module).items() if inspect.isclass(it)}
OF_FIELDS: dict[str, Any] = {
    **dict.fromkeys(("broker_id", "node_id", "leader_id", "replica_id", "replica_nodes", "replicas"), NODE_ID),
    **dict.fromkeys(("name", "topic", "topic_name"), "t"),
    **dict.fromkeys(("partition_index", "partition_id", "partition"), 0),
    "group_state": "Empty",
    "transaction_state": "Ongoing",
    "transaction_timeout_ms": 2**31 - 1,
}
"""So that answers are about what there is."""


class AdminLecture:
    def handle(self, line: str) -> Iterable[str]:
        return asyncio.run(self._asked(line))

    async def _asked(self, line: str) -> list[str]:
        answering = Sampling()
        async with fake_broker(answering) as broker:
            answering.broker = broker
            async with Admin([broker.address], ClientSettings(retry_backoff_ms=1)) as admin:
                try:
                    result = repr(await eval(line, NAMES | {"admin": admin}))
                except KafkaError as error:
                    result = f"{error.code.name}: {error.message}"
            asked = [it for header, it in broker.requests if header.api_key not in OF_THE_CLUSTER]
        return [*map(said, asked), f"= {result}"]


class Sampling(Answering):
    """No answer is an error."""

    @property
    def broker(self) -> FakeBroker | None:
        return self.cluster.broker

    @broker.setter
    def broker(self, broker: FakeBroker) -> None:
        self.cluster.broker = broker

    def __call__(self, header: RequestHeader, request: Message) -> Reply:
        if header.api_key in OF_THE_CLUSTER:
            return self.cluster(header, request)
        return sample(api_of(header.api_key).response_class)


def sample(cls: type[Message]) -> Message:
    """Its texts say which field they are in, and its numbers count up."""
    found = {name: _value(name, it, number) for number, (name, it) in enumerate(cls.__fields__.items(), 1)}
    return cls(**found)


def _value(name: str, item: Field, number: int) -> Any:
    if name.startswith("error") or name == "next_cursor":  # there are no errors, and no more pages
        return item.new_default()
    if not isinstance(item.kind, str):
        return [sample(item.kind)] if item.is_array else sample(item.kind)
    of_kind: dict[str, Any] = {"string": name, "bytes": b"", "records": b"", "uuid": UUID(int=number), "bool": True}
    value = OF_FIELDS.get(name, of_kind.get(item.kind, number))
    return [value] if item.is_array else value


def test_admin(
    transcript: Callable[[str, Callable[[str], Iterable[object]]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(users, "token_bytes", bytes)  # a salt of zeros
    transcript("admin.txt", AdminLecture().handle)


def test_every_method_is_called() -> None:
    text = (Path(__file__).parent / "admin.txt").read_text()
    admin = Admin("127.0.0.1:1")
    parts = {name: part for name, part in vars(admin).items() if type(part).__name__.endswith("Admin")}
    known = {*methods(admin), *(f"{part}.{name}" for part, it in parts.items() for name in methods(it))}
    assert not {name for name in known if f"admin.{name}(" not in text}
