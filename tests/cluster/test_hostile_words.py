"""Words of strangers in all places that a client may fill, through every command that prints them, and in the log."""

import json
import os
import signal
import struct
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread

import pytest
from click.testing import CliRunner, Result
from tests.cluster.started import ANY_PORT, environment, started
from tests.wire.raw_client import RawClient
from tests.wire.raw_members import Member

from penstock.cli.main import COMMANDS, main
from penstock.metadata.configs.protection import STANDARD_AUTHORIZER
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.requests.framing import encode_request

WORD = "\x1b]0;owned\x07\n2026-01-01 00:00:00,000 CRITICAL forged\r\x9b31m\u202e\u2028"
SHOWN = r"\x1b]0;owned\x07\n2026-01-01 00:00:00,000 CRITICAL forged\r\x9b31m\u202e\u2028"
ESCAPE = "\x1b[31m\x9b1m\u202e"
SHOWN_ESCAPE = r"\x1b[31m\x9b1m\u202e"
EVIL = "\u202eevil"
BROKER = 4
LOGGER = 8
PRINT_NOTHING_OF_A_CLUSTER = {
    "completion": "a script for shells",
    "console": "its page escapes what it shows; test_console_strangers.py",
    "demo": "its own records",
    "files": "what comes along with the package",
    "pipeline": "what Spark and the user's own file say; its tables are those of `connect`",
    "schemas": "it asks a registry, and no cluster: tests/unit/cli/records",
    "simulate": "simulated nodes",
    "start": "its log is read below",
    "worker": "as start",
}
RULES = (f"authorizer.class.name={STANDARD_AUTHORIZER}", "allow.everyone.if.no.acl.found=true")
GROUP = ("--group", WORD)
EARLIEST = ("--offset-reset-strategy", "earliest")
CALLS: dict[str, list[tuple[str, ...]]] = {
    "transactions": [("list",), ("describe", "--transactional-id", WORD)],
    "security": [("doctor", "--topic", WORD)],
    "users": [("--set-password", "--user", WORD, "--password-file", "{records}"), ("--list",)],
    "acls": [
        ("--add", "--transactional-id", WORD, "--allow-principal", f"User:{WORD}", "--allow-host", WORD),
        ("--list",),
    ],
    "balance": [("plan",)],
    "broker-api-versions": [()],
    "client-metrics": [("--alter", "--name", WORD, "--metrics", WORD), ("--list",), ("--describe",)],
    "cluster": [("describe",), ("list-endpoints",), ("api-versions",)],
    "configs": [("--describe", "--broker", "1", "--all"), ("--describe", "--entity-type", "client-metrics")],
    "connect": [("list",), ("status", WORD), ("tasks", EVIL), ("offsets", EVIL), ("plugins",)],
    "consume": [("--topic", "t", "--from-beginning", "--max-messages", "1")],
    "consumer-perf-test": [("--topic", WORD, "--num-records", "1")],
    "controller": [()],
    "delayed": [("list", "--topic", "t")],
    "delegation-tokens": [("--describe", "--owner-principal", f"User:{WORD}")],
    "delete-records": [("--offset-json-file", "{records}")],
    "dump-log": [
        ("--files", "{data}/t-0/00000000000000000000.log", "--print-data-log"),
        ("--files", "{data}/__consumer_offsets-0/00000000000000000000.log", "--offsets-decoder"),
        ("--files", "{data}/__cluster_metadata-0/00000000000000000000.log", "--cluster-metadata-decoder"),
        ("--files", "{data}/__cluster_metadata-0/00000000000000000000.log", "--print-data-log", "--deep-iteration"),
    ],
    "e2e-latency": [("--topic", WORD, "--num-records", "1", "--producer-acks", "1", "--record-size", "1")],
    "features": [("describe",)],
    "groups": [
        ("--list",),
        ("--describe", *GROUP),
        ("--describe", "--all-groups", "--members", "--verbose"),
        ("--describe", *GROUP, "--state"),
        ("--describe", *GROUP, "--history"),
        ("--holding", "t"),
        ("--describe", "--group", f"none of {WORD}"),
        ("--reset-offsets", *GROUP, "--all-topics", "--to-earliest", "--export"),
        ("--delete", *GROUP),
    ],
    "leader-election": [("--election-type", "preferred", "--topic", WORD, "--partition", "0")],
    "leaders": [("show",)],
    "log-dirs": [()],
    "metadata": [("checksum",), ("metrics",)],
    "metadata-quorum": [("describe", "--status"), ("describe", "--replication")],
    "metadata-shell": [("tree", "/"), ("find", "/"), ("ls", "/image/configs/BROKER:1"), ("cat", f"/{WORD}")],
    "offsets": [("--topic", "t|__consumer_offsets")],
    "produce": [("--topic", WORD)],
    "producer-perf-test": [("--topic", WORD, "--num-records", "1", "--record-size", "1", "--throughput", "-1")],
    "reassign-partitions": [("--list",)],
    "replica-verification": [("--topics-include", f"({WORD}")],
    "share-consumer-perf-test": [("--topic", WORD, "--num-records", "1", "--timeout", "1")],
    "storage": [("info", "--config", "{config}")],
    "storage-groups": [()],
    "streams-application-reset": [("--application-id", WORD, "--input-topics", f"t,{WORD}", "--dry-run")],
    "topics": [("--describe",), ("--describe", "--topic", WORD), ("--create", "--topic", WORD)],
    "verifiable-consumer": [("--topic", "t", "--group-id", "v", "--max-messages", "1", "--verbose")],
    "verifiable-share-consumer": [("--topic", "t", "--group-id", "w", "--max-messages", "1", "--verbose", *EARLIEST)],
    "verifiable-producer": [("--topic", WORD, "--max-messages", "1")],
}
OFFLINE = ("dump-log", "storage")
AT_LEAST = 14
"""So many calls at least show the word, escaped: else this would test nothing."""


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A node with a worker, and hostile words wherever a client may leave some; what it logged is looked at."""
    directory = tmp_path_factory.mktemp("attacked")
    config = directory / "node.properties"
    roles = "process.roles=broker,controller\ncontroller.listener.names=C\ncontroller.quorum.voters=1@127.0.0.1:1\n"
    config.write_text(f"node.id=1\nlog.dirs={directory}/data\nlisteners=PLAINTEXT://:2,C://127.0.0.1:1\n{roles}")
    records = directory / "records.json"
    records.write_text(json.dumps({"partitions": [{"topic": WORD, "partition": 0, "offset": 0}]}))
    own = (f"broker.rack=rack {ESCAPE}", f"log.dirs={directory}/data", "offsets.topic.num.partitions=1", *RULES)
    settings = [*ANY_PORT, *(part for one in own for part in ("--set", one))]
    with started(directory, *settings, "--worker", "--worker-port", "0", "--log-level", "info") as node:
        said = list(node.said)
        assert node.process.stdout is not None
        while not said[-1].startswith("  worker"):
            said.append(node.process.stdout.readline().rstrip("\n"))
        reader = Thread(target=lambda: said.extend(node.process.stdout or ()))
        reader.start()
        places = {
            "server": f"127.0.0.1:{node.port}",
            "worker": said[-1].split()[1],
            "data": f"{directory}/data",
            "config": str(config),
            "records": str(records),
        }
        with RawClient(places["server"]) as client:
            fill(client, places)
            yield places
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(60) == 0
        reader.join()
    look_at_the_log(said)


def fill(client: RawClient, places: dict[str, str]) -> None:
    to = ("--bootstrap-server", places["server"])
    run("topics", "--create", "--topic", "t", "--partitions", "1", *to)
    run("produce", "--topic", "t", "--property", "parse.key=true", *to, given=f"k{ESCAPE}\tv{ESCAPE}\n")
    levels = [AlterableConfig(name="kafka.request.logger", value="DEBUG")]
    free = [AlterableConfig(name=f"rsm.config.{WORD}", value=WORD)]
    for kind, configs in ((LOGGER, levels), (BROKER, free)):
        resource = AlterConfigsResource(resource_type=kind, resource_name="1", configs=configs)
        answer = client.ask(IncrementalAlterConfigsRequest(resources=[resource]))
        assert [one.error_code for one in answer.responses] == [0], answer
    member = Member.joined(client, WORD)
    commit = member.commit_request("t", 0)
    commit.topics[0].partitions[0].committed_metadata = WORD
    assert client.ask(commit, 9).topics[0].partitions[0].error_code == 0
    client.send_bytes(encode_request(FindCoordinatorRequest(key=WORD), 3, 99, WORD))
    client.receive_frame()
    with RawClient(places["server"]) as refused:  # a version that is not served: the log says of whom
        client_id = WORD.encode()
        head = struct.pack(">hhih", 3, 99, 1, len(client_id)) + client_id + b"\0"
        refused.send_frame(head)
        assert refused.socket.recv(1) == b""
    body = {"name": EVIL, "config": {"connector.class": "FileStreamSource", "topic": "t", "file": WORD, "x": WORD}}
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(f"{places['worker']}/connectors", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(asked, timeout=60) as answered:
        assert answered.status == 201


def look_at_the_log(said: list[str]) -> None:
    lines = [line.rstrip("\n") for line in said]
    assert not [line for line in lines if not line.isprintable()]
    assert not [line for line in lines if line.startswith("2026-01-01 00:00:00,000 CRITICAL forged")]
    logged = [line for line in lines if SHOWN in line]
    assert any("FindCoordinator" in line for line in logged), "the request log names the client"
    assert any("is not served" in line for line in logged), "so does what is refused"


def run(*arguments: str, given: str = "") -> Result:
    return CliRunner().invoke(main, arguments, input=given, prog_name="penstock")


def arguments_of(command: str, call: tuple[str, ...], places: dict[str, str]) -> list[str]:
    own = [part.format(**places) if part.startswith("{") else part for part in call]
    if command in OFFLINE:
        return [command, *own]
    if command == "connect":
        return [command, call[0], "--worker", places["worker"], *own[1:]]
    where = ["--bootstrap-server", places["server"]]
    subcommands = call[:1] if call and not call[0].startswith("-") and command != "metadata-shell" else ()
    return [command, *subcommands, *where, *own[len(subcommands) :]]


def test_every_command_is_here_or_says_why() -> None:
    assert sorted([*CALLS, *PRINT_NOTHING_OF_A_CLUSTER]) == sorted(COMMANDS)


def test_no_command_passes_on_what_commands_a_terminal(attacked: dict[str, str]) -> None:
    shown = 0
    for command, calls in CALLS.items():
        for call in calls:
            arguments = arguments_of(command, call, attacked)
            for form in ([], ["--json"]):
                result = run(arguments[0], *arguments[1:], *form)
                assert "Traceback" not in result.output, (arguments, result.output)
                bad = [line for line in result.output.split("\n") if not line.replace("\t", "").isprintable()]
                if command != "consume" or form:
                    assert not bad, (arguments, bad)
                shown += any(word in result.output for word in (SHOWN, r"\u202e", r"\u001b"))
                if form and result.exit_code == 0 and command != "dump-log":
                    json.loads(result.stdout or "null")
    assert shown >= AT_LEAST, shown


def test_consume_escapes_on_a_terminal_alone(attacked: dict[str, str]) -> None:
    one = ["consume", "--topic", "t", "--from-beginning", "--max-messages", "1", "--property", "print.key=true"]
    arguments = [*one, "--bootstrap-server", attacked["server"]]
    assert run(*arguments).stdout == f"k{ESCAPE}\tv{ESCAPE}\n"
    command = [sys.executable, "-m", "penstock", *arguments]
    for form, wanted in (([], f"k{SHOWN_ESCAPE}\tv{SHOWN_ESCAPE}"), (["--raw"], f"k{ESCAPE}\tv{ESCAPE}")):
        assert on_terminal([*command, *form]).partition("\r\n")[0] == wanted


def on_terminal(command: list[str]) -> str:
    """What a command writes to its terminal."""
    ours, its = os.openpty()
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=subprocess.DEVNULL, env=environment()) as process:
        os.close(its)
        seen = b""
        with suppress(OSError):  # so Linux tells that the other end is closed
            while piece := os.read(ours, 4096):
                seen += piece
        process.wait(60)
    os.close(ours)
    return seen.decode()
