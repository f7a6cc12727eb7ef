"""One directory that goes from hand to hand: founded by one system, stopped or killed, taken over by the other.

Each stint checks all that was acknowledged in the stints before, and adds to it: records of an idempotent producer in
every codec, offsets of groups, a topic of its own.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from bench.hand_in_hand import clients
from bench.hand_in_hand.clients import Promise
from bench.hand_in_hand.node import KAFKA, PENSTOCK, Node, wait_until
from bench.process import free_port

CLUSTER_ID: Final = "YkJwr6RESgSJv-sxa1R1mA"
RELEASES: Final = ("4.0", "4.1", "4.2", "4.3", "4.4")
"""Each has its last level of metadata.version."""
STINTS: Final = (("founder", "clean"), ("other", "kill -9"), ("founder", "kill -9"), ("other", "clean"))


def change_hands(folder: Path, founder: str, release: str, say: Callable[[str], None]) -> None:
    """One directory through `STINTS`. Raises HandError."""
    other = PENSTOCK if founder == KAFKA else KAFKA
    node, address = single_node(folder)
    node.format(founder, CLUSTER_ID, "--release-version", release)
    promise = Promise("clicks")
    for stint, (whose, end) in enumerate(STINTS):
        system = founder if whose == "founder" else other
        node.start(system)
        try:
            wait_until(f"{system} serves", lambda: clients.is_up(address), [node])
            if stint == 0:
                clients.create(address, promise.topic)
            else:
                clients.check(address, promise)
            clients.create(address, f"of-stint-{stint}")
            clients.produce(address, promise, stint)
            clients.commit(address, promise, stint)
            clients.check(address, promise)
        except BaseException:
            node.kill()
            raise
        say(f"{system}: {len(promise.records)} records, {len(promise.committed)} groups; then {end}")
        node.stop() if end == "clean" else node.kill()


def single_node(folder: Path, more: Mapping[str, str] | None = None) -> tuple[Node, str]:
    """A broker that is its own quorum, and its address."""
    port, controller_port = free_port(), free_port()
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "log.dirs": str(folder / "data"),
        "offsets.topic.num.partitions": "5",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        **(more or {}),
    }
    return Node(folder, settings), f"127.0.0.1:{port}"
