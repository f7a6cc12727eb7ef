"""Kafka's own server.properties, broker.properties and controller.properties start nodes; ports and paths differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cluster.started import Started, started
from tests.unit.metadata.configs.test_broker_config import BROKER, COMBINED, CONTROLLER
from tests.wire.raw_client import RawClient

from penstock.cli.nodes.storage import command as storage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import describe_quorum
from penstock.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from penstock.protocol.uuids import uuid_from_text
from penstock.testing.ports import ReservedPort

CLUSTER = "YkJwr6RESgSJv-sxa1R1mA"


@contextmanager
def port() -> Iterator[str]:
    """A port that nobody else takes meanwhile."""
    reserved = ReservedPort()
    reserved.make_way()
    try:
        yield reserved.address.rpartition(":")[2]
    finally:
        reserved.release()


def file(directory: Path, settings: Mapping[str, str], ports: Mapping[str, str], *format_options: str) -> str:
    """The file with other ports, its data beside it, formatted."""
    path = directory / f"{settings['process.roles'].replace(',', '-')}.properties"
    text = "".join(f"{key}={value}\n" for key, value in settings.items() if key != "log.dirs")
    for old, new in ports.items():
        text = text.replace(f":{old}", f":{new}")
    path.write_text(text + f"log.dirs={path.with_suffix('')}\n")
    done = CliRunner().invoke(storage, ["format", "-t", CLUSTER, "-c", str(path), *format_options])
    assert done.exit_code == 0, done.output
    return path.name


def quorum(broker: str) -> tuple[int, list[int]]:
    """Who leads, and who votes, as a broker says."""
    partition = describe_quorum.DescribeQuorumRequestPartitionData(partition_index=0)
    topic = describe_quorum.DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=[partition])
    with RawClient(f"localhost:{broker}") as client:
        described = client.ask(describe_quorum.DescribeQuorumRequest(topics=[topic])).topics[0].partitions[0]
    return described.leader_id, [voter.replica_id for voter in described.current_voters]


def creates(broker: str, name: str) -> bool:
    """Whether a broker has a topic created as the file says."""
    wish = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
    with RawClient(f"localhost:{broker}") as client:
        (created,) = client.ask(CreateTopicsRequest(topics=[wish], timeout_ms=30_000)).topics
    return (created.error_code, created.num_partitions, created.replication_factor) == (0, 1, 1)


def changed(broker: str, request: AddRaftVoterRequest | RemoveRaftVoterRequest) -> int:
    """Ask for a change of voters until it can be made: who is to vote has to catch up first, one change at a time."""
    with RawClient(f"localhost:{broker}") as client:
        codes = (int(client.ask(request).error_code) for _ in range(10_000))
        return next(code for code in codes if code != ErrorCode.REQUEST_TIMED_OUT)


def said_nothing_else(node: Started) -> None:
    assert node.said[0].startswith("Penstock "), node.said


def test_a_node_of_both_roles(tmp_path: Path) -> None:
    with port() as broker, port() as controller:
        name = file(tmp_path, COMBINED, {"9092": broker, "9093": controller}, "--standalone")
        with started(tmp_path, name) as node:
            said_nothing_else(node)
            assert quorum(broker) == (1, [1])
            assert creates(broker, "orders")


@pytest.mark.parametrize("voters", ["dynamic", "static"])
def test_a_broker_and_a_controller(tmp_path: Path, voters: str) -> None:
    controller_settings, broker_settings, options = CONTROLLER, BROKER, ["--standalone"]
    if voters == "static":
        # The comment in the file says what to put there instead.
        static = {"controller.quorum.bootstrap.servers": "", "controller.quorum.voters": "1@localhost:9093"}
        controller_settings, broker_settings, options = CONTROLLER | static, BROKER | static, []
    with ExitStack() as stack:
        broker, controller = stack.enter_context(port()), stack.enter_context(port())
        ports = {"9092": broker, "9093": controller}
        first = file(tmp_path, controller_settings, ports, *options)
        second = file(tmp_path, broker_settings, ports)
        said_nothing_else(stack.enter_context(started(tmp_path, first)))
        said_nothing_else(stack.enter_context(started(tmp_path, second)))
        assert quorum(broker) == (1, [1])
        assert creates(broker, "orders")


def test_a_second_controller_becomes_a_voter_and_goes_again(tmp_path: Path) -> None:
    with ExitStack() as stack:
        broker, first, second = (stack.enter_context(port()) for _ in range(3))
        own = tmp_path / "second"
        own.mkdir()
        names = {"9092": broker, "9093": first}
        stack.enter_context(started(tmp_path, file(tmp_path, COMBINED, names, "--standalone")))
        settings = CONTROLLER | {
            "node.id": "3",
            "listeners": f"CONTROLLER://:{second}",
            "advertised.listeners": f"CONTROLLER://localhost:{second}",
        }
        stack.enter_context(started(own, file(own, settings, names, "--no-initial-controllers")))
        lines = (own / "controller/meta.properties").read_text().split()
        (text,) = (line.partition("=")[2] for line in lines if line.startswith("directory.id="))
        directory_id = uuid_from_text(text)
        listeners = [Listener(name="CONTROLLER", host="localhost", port=int(second))]
        add = AddRaftVoterRequest(
            cluster_id=CLUSTER, voter_id=3, voter_directory_id=directory_id, listeners=listeners, timeout_ms=30_000
        )
        assert changed(broker, add) == ErrorCode.NONE
        assert quorum(broker) == (1, [1, 3])
        assert creates(broker, "of-two-voters")
        remove = RemoveRaftVoterRequest(cluster_id=CLUSTER, voter_id=3, voter_directory_id=directory_id)
        assert changed(broker, remove) == ErrorCode.NONE
        assert quorum(broker) == (1, [1])
        assert creates(broker, "of-one-voter")
