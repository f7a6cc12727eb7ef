"""The coordinator of a group with members of both protocols goes to another node, and is killed: it is read on."""

from __future__ import annotations

import asyncio

import pytest
from tests.cluster.test_coordinator_handed_over import CONFIG as OF_COORDINATORS
from tests.cluster.test_coordinator_handed_over import leader, move
from tests.wire.readers import PARTITIONS, Aiokafka, Librdkafka, Ours, shared_by
from tests.wire.test_both_protocols import CONFIG, run

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.testing import Cluster

TOPIC = "orders"


@pytest.mark.soak
async def test_a_group_of_both_protocols_outlives_its_coordinators() -> None:
    with Cluster(brokers=2, controllers=1, config=OF_COORDINATORS | CONFIG) as cluster:
        node = cluster.bootstrap_servers
        await asyncio.to_thread(run, "features", "upgrade", "--feature", "group.version=1", "--bootstrap-server", node)
        async with Admin(node) as admin:
            await admin.topics.create(NewTopic(name=TOPIC, partitions=PARTITIONS))
            await admin.topics.wait_until_led(TOPIC)
            classic = await Aiokafka.start(node, TOPIC)
            await shared_by(classic)
            theirs, ours = Librdkafka(node, TOPIC, "consumer"), await Ours.start(node, TOPIC, "consumer")
            await shared_by(classic, theirs, ours)
            await move(node)
            await shared_by(classic, theirs, ours)
            await theirs.close()
            await shared_by(classic, ours)
            coordinator = await leader(admin)
            await asyncio.to_thread(cluster.node(coordinator).stop)
            await shared_by(classic, ours)
            await asyncio.to_thread(cluster.node(coordinator).start)
            await ours.close()
            await shared_by(classic)
            await classic.close()
