"""What a single node imports until it answers: each module takes a part of its start, and memory for good."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.requests.framing import encode_request

PROGRAM = """
import sys
from penstock.cli.main import main
main(sys.argv[1:], standalone_mode=False)
print("modules:", *sorted(sys.modules))
"""
LISTENS = "PLAINTEXT://127.0.0.1:"
MOST = 346
"""Files of our own, without the `__init__.py` of folders, which hold a sentence each; think before you raise it."""
SOURCE = Path(penstock.__file__).parents[1]

NOT_NEEDED = (
    "email",
    "hashlib",
    "importlib.metadata",
    "penstock.client",
    "penstock.controller.alter_configs",
    "penstock.controller.alter_partition",
    "penstock.controller.assign_directories",
    "penstock.controller.create_partitions",
    "penstock.controller.create_topics",
    "penstock.controller.delete_topics",
    "penstock.controller.elect_leaders",
    "penstock.controller.producer_ids",
    "penstock.controller.reassignments",
    "penstock.controller.update_features",
    "penstock.node.api.controller",
    "penstock.node.controlling.envelope",
    "penstock.node.api.storage_group_requests",
    "penstock.node.assembly.links",
    "penstock.node.quorum.messages",
    "penstock.node.storage_groups.group",
    "penstock.node.quorum.peers",
    "penstock.node.controlling.remote",
    "penstock.protocol.messages.envelope",
    "penstock.protocol.messages.fetch_snapshot",
    "penstock.protocol.messages.vote",
    "penstock.raft.kafka_answers",
    "penstock.raft.kafka_requests",
    "rich",
)
"""What belongs to clusters, to rare requests, or to others altogether."""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Those of a node that started in an empty directory, answered one request, and was stopped."""
    directory: Path = tmp_path_factory.mktemp("node") / "data"
    settings = ("--set", f"listeners={LISTENS}0", "--set", f"log.dirs={directory}")
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "start", *settings], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            port = next(line for line in process.stdout if LISTENS in line).strip().rpartition(":")[2]
            with socket.create_connection(("127.0.0.1", int(port))) as connection:
                connection.sendall(encode_request(ApiVersionsRequest(), 0, 1, "test"))
                assert connection.recv(4)
        finally:
            process.send_signal(signal.SIGTERM)
        return process.stdout.read().rpartition("modules: ")[2].split()


def test_a_single_node_imports_nothing_that_only_others_need(modules: list[str]) -> None:
    needless = [name for name in modules if any(f"{name}.".startswith(f"{other}.") for other in NOT_NEEDED)]
    assert needless == []


def is_folder(module: str) -> bool:
    return SOURCE.joinpath(*module.split(".")).is_dir()


def test_a_single_node_imports_few_modules(modules: list[str]) -> None:
    ours = [name for name in modules if name.partition(".")[0] == "penstock" and not is_folder(name)]
    assert "penstock.node.api.broker.api_versions" in ours
    assert len(ours) <= MOST, ours
