"""Connections to other brokers, and what the metadata say of these."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.metadata.image import ClusterImage
from penstock.metadata.records import BrokerRegistrationChangeRecord, MetadataRecord, RegisterBrokerRecord, TopicRecord
from penstock.metadata.records import UnregisterBrokerRecord as Unregistered
from penstock.node.assembly.broker_start import _Neighbours


class Reached:
    def __init__(self) -> None:
        self.closed = False
        self.why = ""

    def abort(self, why: str) -> None:
        self.closed, self.why = True, why


class Cluster:
    """Two brokers, and what another one knows of them."""

    def __init__(self) -> None:
        self.image = ClusterImage("test")
        for broker_id in (2, 3):
            self.image.apply(RegisterBrokerRecord(broker_id=broker_id, broker_epoch=broker_id, fenced=False))
        quorum = SimpleNamespace(context=self, links=self)
        self.neighbours = _Neighbours(cast("Any", None), cast("Any", quorum))

    async def to_broker(self, _: int) -> Reached:
        return Reached()

    def tell(self, record: MetadataRecord) -> None:
        self.image.apply(record)
        self.neighbours.on_metadata([record])


STOPS = BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=2, in_controlled_shutdown=1)
FENCED = BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=2, fenced=1)


@pytest.mark.parametrize(
    "record",
    [FENCED, Unregistered(broker_id=2, broker_epoch=2), RegisterBrokerRecord(broker_id=2, broker_epoch=9)],
    ids=["fenced", "gone", "another process"],
)
async def test_nothing_is_waited_for_from_a_broker_that_is_fenced(record: MetadataRecord) -> None:
    cluster = Cluster()
    silent, sound = [cast("Any", await cluster.neighbours.connect(broker_id)) for broker_id in (2, 3)]
    cluster.tell(TopicRecord(name="t"))
    assert not silent.closed
    cluster.tell(record)
    assert (silent.why, sound.closed) == ("broker 2 is fenced", False)


async def test_a_broker_that_stops_still_answers() -> None:
    cluster = Cluster()
    stopping = cast("Any", await cluster.neighbours.connect(2))
    cluster.tell(STOPS)
    cluster.tell(FENCED.replace(in_controlled_shutdown=1))  # by its own wish
    assert not stopping.closed
    cluster.tell(BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=3, fenced=1))  # which says nothing of it
    assert not stopping.closed


async def test_a_broker_that_falls_silent_while_it_stops_is_not_waited_for() -> None:
    cluster = Cluster()
    silent = cast("Any", await cluster.neighbours.connect(2))
    cluster.tell(STOPS)
    cluster.tell(FENCED)
    assert silent.closed


async def test_a_snapshot_says_the_same() -> None:
    cluster = Cluster()
    silent = cast("Any", await cluster.neighbours.connect(2))
    cluster.image.apply(FENCED)
    cluster.neighbours.on_new_image()
    assert silent.closed


async def test_connections_that_are_closed_are_forgotten() -> None:
    cluster = Cluster()
    for _ in range(3):
        cast("Any", await cluster.neighbours.connect(2)).abort("")
    assert len(cluster.neighbours._reached) == 1
