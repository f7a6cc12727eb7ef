"""Both systems over the same directories, and in one quorum.

One directory goes from hand to hand: founded by one system, stopped or killed, taken over by the other. Each stint
checks all that was acknowledged before, and adds to it: records in every codec, offsets of groups, a topic of its own.

A quorum has two controllers of the founder's, which begin, and one of the other. A broker of each system joins. Leaders
are killed and come back until each system has led; a topic is created and written under each leader. Where the release
has eligible leader replicas, the founder's broker is killed under each leader, too: it has to be eligible while it is
away, and in sync when it is back. In the end the logs of all three controllers say the same.
"""

import re
import subprocess
from pathlib import Path
from typing import Final

from bench.hand_in_hand.node import (
    HandError,
    Node,
    Promise,
    Say,
    check,
    commit,
    count,
    create,
    other_than,
    penstock,
    produce,
    single_node,
    wait_until,
    wait_until_up,
)
from bench.process import free_ports
from bench.topics import create_topic
from bench.versus.kafka import server_settings
from bench.versus.systems import KAFKA, PENSTOCK
from penstock.cli.metadata_shell.source import read_view
from penstock.metadata.features import (
    ELIGIBLE_LEADER_REPLICAS,
    KAFKAS_FEATURES,
    SUPPORTED_FEATURES,
    default_level,
    metadata_version_named,
)

RELEASES: Final = ("4.0", "4.1", "4.2", "4.3", "4.4")
"""Each with its last level of metadata.version."""
STINTS: Final = (("founder", "clean"), ("other", "kill -9"), ("founder", "kill -9"), ("other", "clean"))


def change_hands(folder: Path, founder: str, release: str, say: Say) -> None:
    node, address = single_node(folder)
    node.format(founder, "--release-version", release)
    promise = Promise("clicks")
    for stint, (whose, end) in enumerate(STINTS):
        system = founder if whose == "founder" else other_than(founder)
        node.start(system)
        try:
            wait_until_up(address, node)
            if stint == 0:
                create(address, promise.topic)
            else:
                check(address, promise)
            create(address, f"of-stint-{stint}")
            produce(address, promise, stint)
            commit(address, promise, stint)
            check(address, promise)
        except BaseException:
            node.kill()
            raise
        say(f"{system}: {len(promise.records)} records, {len(promise.committed)} groups; then {end}")
        node.stop() if end == "clean" else node.kill()


CONTROLLERS: Final = (1, 2, 3)
BROKERS: Final = (4, 5)
"""One of the other system, which all clients ask, and one of the founder's, which is killed."""
PAIR: Final = "pair"
"""A topic with a replica on each broker, both of which must have what is committed."""
MOST_ROUNDS: Final = 12
"""The most kills of a leader until the other system leads: each election is a draw."""


def mix(folder: Path, founder: str, release: str, say: Say) -> None:
    other = other_than(founder)
    systems = {1: founder, 2: founder, 3: other, 4: other, 5: founder}
    nodes, address, founders = _nodes(folder)
    has_eligible = default_level(ELIGIBLE_LEADER_REPLICAS, metadata_version_named(release) or 0) > 0
    try:
        for node_id, node in nodes.items():
            node.format(systems[node_id], *_wishes(systems[node_id], release))
        for node_id in (1, 2):
            nodes[node_id].start(founder)
        _leader({1: nodes[1], 2: nodes[2]}, ["--bootstrap-controller", founders])
        for node_id in (3, *BROKERS):
            nodes[node_id].start(systems[node_id])
        wait_until("the brokers serve", lambda: count(address) == len(BROKERS), list(nodes.values()))
        create_topic(address, PAIR, 1, 2, {"min.insync.replicas": "2"})
        led = _rounds(nodes, systems, address, say, has_eligible)
        if set(led) != {KAFKA, PENSTOCK}:
            raise HandError(f"only {set(led)} led in {len(led)} rounds")
        wait_until("all controllers say the same", lambda: _agree(nodes, len(led) + 1), list(nodes.values()))
    finally:
        for node_id in (*BROKERS, *CONTROLLERS):
            nodes[node_id].stop()


def _rounds(nodes: dict[int, Node], systems: dict[int, str], address: str, say: Say, has_eligible: bool) -> list[str]:
    led: list[str] = []
    for number in range(MOST_ROUNDS):
        leader = _leader(nodes, ["--bootstrap-server", address])
        led.append(systems[leader])
        promise = Promise(f"under-{number}")
        create(address, promise.topic)
        produce(address, promise, number)
        check(address, promise)
        say(f"controller {leader} ({systems[leader]}) leads: {promise.topic} is there")
        if has_eligible:
            _lose_a_broker(nodes, systems)
            say(f"broker {BROKERS[1]} was eligible while it was away")
        if len(set(led)) == 2:
            break
        nodes[leader].kill()
        _leader(nodes, ["--bootstrap-server", address], besides=leader)
        nodes[leader].start(systems[leader])
    return led


def _lose_a_broker(nodes: dict[int, Node], systems: dict[int, str]) -> None:
    """Kill the founder's broker, look what all controllers have of the pair meanwhile, and let it come back."""
    stays, goes = BROKERS
    nodes[goes].kill()
    others = [node for node_id, node in nodes.items() if node_id != goes]
    wait_until(f"broker {goes} is eligible", lambda: _pair(nodes) == {((stays,), (goes,))}, others)
    nodes[goes].start(systems[goes])
    wait_until(f"broker {goes} is in sync", lambda: _pair(nodes) == {(BROKERS, ())}, list(nodes.values()))


def _pair(nodes: dict[int, Node]) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The ISR and the eligible leaders, in the log of each controller."""
    partitions = [read_view(nodes[node_id].data).image.topics[PAIR].partitions[0] for node_id in CONTROLLERS]
    return {(tuple(sorted(each.isr)), each.eligible_leader_replicas) for each in partitions}


def _leader(nodes: dict[int, Node], reach: list[str], besides: int = -1) -> int:
    """The quorum's leader by any reachable node; not `besides`."""
    found = -1

    def is_known() -> bool:
        nonlocal found
        words = penstock("metadata-quorum", *reach, "describe", "--status")
        said = subprocess.run(words, capture_output=True, text=True).stdout
        match = re.search(r"^LeaderId:\s+(\d+)", said, re.MULTILINE)
        found = int(match[1]) if match else -1
        return found not in (-1, besides)

    wait_until("a controller leads", is_known, [node for node_id, node in nodes.items() if node_id != besides])
    return found


def _agree(nodes: dict[int, Node], topics: int) -> bool:
    """Whether the logs of all controllers agree on topics, settings and features."""
    said = []
    for node_id in CONTROLLERS:
        image = read_view(nodes[node_id].data).image
        ids = {name: topic.topic_id for name, topic in image.topics.items() if not topic.is_internal}
        said.append((ids, image.configs, image.features))
    return said[0] == said[1] == said[2] and len(said[0][0]) == topics


def _wishes(system: str, release: str) -> list[str]:
    """Kafka's tool is told to leave out the features that Penstock does not have."""
    wishes = ["--release-version", release]
    if system == KAFKA:
        for feature in KAFKAS_FEATURES.keys() - SUPPORTED_FEATURES.keys():
            wishes += ["--feature", f"{feature}=0"]
    return wishes


def _nodes(folder: Path) -> tuple[dict[int, Node], str, str]:
    ids = (*CONTROLLERS, *BROKERS)
    ports = dict(zip(ids, free_ports(len(ids)), strict=True))
    controllers = {node_id: ports[node_id] for node_id in CONTROLLERS}
    nodes = {}
    for node_id, port in ports.items():
        broker, controller = (port, None) if node_id in BROKERS else (None, port)
        settings = {
            **server_settings(node_id, folder / str(node_id) / "data", broker, controller, controllers),
            "offsets.topic.num.partitions": "3",
            "offsets.topic.replication.factor": "1",
        }
        nodes[node_id] = Node(folder / str(node_id), settings)
    founders = ",".join(f"127.0.0.1:{ports[node_id]}" for node_id in (1, 2))
    return nodes, f"127.0.0.1:{ports[BROKERS[0]]}", founders
