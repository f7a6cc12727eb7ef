"""A cluster that is secured stands open through no node that joins it, as a broker or as a controller."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.cluster.nodes_in_a_loop import Nodes

from penstock.metadata.features import CONTROLLER_REGISTRATION_LEVEL, METADATA_VERSION
from penstock.metadata.records import FeatureLevelRecord, MetadataRecord
from penstock.metadata.security_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from penstock.node.assembly.protection import UnprotectedError
from penstock.node.assembly.start import StartError, start_node

IGNORED = {"penstock_security_ignored": "true"}
RULE = AccessControlEntryRecord(principal="User:alice")
GONE = RemoveAccessControlEntryRecord(id=RULE.id)


async def write(nodes: Nodes, *records: MetadataRecord) -> None:
    """As a controller of Kafka's would, each in a batch of its own."""
    while True:
        for node in nodes.running.values():
            controller = node.parts.controller
            if controller is not None and controller.is_active:
                for record in records:
                    await node.parts.log.append([record], controller.epoch)
                return
        await asyncio.sleep(0)


def test_a_broker_does_not_join_a_secured_cluster(tmp_path: Path) -> None:
    async def run() -> None:
        nodes = Nodes(tmp_path, {1: "controller", 2: "broker"}, **IGNORED)
        await nodes.start(1)
        await write(nodes, RULE)
        try:
            with pytest.raises(StartError, match=r"the cluster's metadata ask .*access rules"):
                await start_node(nodes.config(2, penstock_security_ignored="false"))
            await write(nodes, GONE)
            nodes.running[2] = await start_node(nodes.config(2, penstock_security_ignored="false"))
        finally:
            await nodes.stop()

    asyncio.run(run())


def test_nor_does_a_controller_that_comes_later(tmp_path: Path) -> None:
    async def run() -> None:
        nodes = Nodes(tmp_path, dict.fromkeys((1, 2, 3), "controller"), **IGNORED)
        await nodes.start(1, 2)
        await write(nodes, RULE, GONE)
        late = nodes.running[3] = await start_node(nodes.config(3, penstock_security_ignored="false"))
        try:
            while late.parts.context.image.offset < nodes.running[1].parts.context.image.offset:
                await asyncio.sleep(0)
            assert not late.failed.done(), "it has read of a rule that is gone"
            await write(nodes, RULE)
            assert isinstance(await late.failed, UnprotectedError)
            assert not nodes.running[1].failed.done()
        finally:
            await nodes.stop()

    asyncio.run(run())


def test_one_whose_cluster_has_no_record_of_controllers_stops_as_well(tmp_path: Path) -> None:
    async def run() -> None:
        nodes = Nodes(tmp_path, dict.fromkeys((1, 2, 3), "controller"), **IGNORED)
        await nodes.start(1, 2)
        await write(nodes, FeatureLevelRecord(name=METADATA_VERSION, feature_level=CONTROLLER_REGISTRATION_LEVEL - 1))
        await write(nodes, RULE)
        late = nodes.running[3] = await start_node(nodes.config(3, penstock_security_ignored="false"))
        try:
            assert isinstance(await late.failed, UnprotectedError)
        finally:
            await nodes.stop()

    asyncio.run(run())


def test_one_that_has_to_stop_does_not_lead_when_it_is_elected(tmp_path: Path) -> None:
    async def run() -> None:
        nodes = Nodes(tmp_path, dict.fromkeys((1, 2, 3), "controller"))
        await nodes.start()
        try:
            await asyncio.wait([asyncio.create_task(write(nodes, RULE))])
            for node in nodes.running.values():
                await node.failed
            parts = [node.parts for node in nodes.running.values()]
            epoch = max(part.quorum.epoch for part in parts)
            while max(part.quorum.epoch for part in parts) <= epoch + 1:  # others are elected, and give it up as well
                assert not any(part.controller is not None and part.controller.is_active for part in parts)
                await asyncio.sleep(0)
        finally:
            await nodes.stop()

    asyncio.run(run())


def test_all_nodes_of_a_cluster_stop_when_it_is_secured(tmp_path: Path) -> None:
    async def run() -> None:
        nodes = Nodes(tmp_path, dict.fromkeys((1, 2, 3), "broker,controller"))
        await nodes.start()
        try:
            await asyncio.wait([asyncio.create_task(write(nodes, RULE))])
            for node in nodes.running.values():
                assert isinstance(await node.failed, UnprotectedError)
        finally:
            await nodes.stop()

    asyncio.run(run())
