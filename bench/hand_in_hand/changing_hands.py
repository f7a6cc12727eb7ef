"""One directory that goes from hand to hand: founded by one system, stopped or killed, taken over by the other.

Each stint checks all that was acknowledged in the stints before, and adds to it: records of an idempotent producer in
every codec, offsets of groups, a topic of its own.
"""

from pathlib import Path
from typing import Final

from bench.hand_in_hand import clients
from bench.hand_in_hand.clients import Promise
from bench.hand_in_hand.node import Say, other_than, single_node

RELEASES: Final = ("4.0", "4.1", "4.2", "4.3", "4.4")
"""Each has its last level of metadata.version."""
STINTS: Final = (("founder", "clean"), ("other", "kill -9"), ("founder", "kill -9"), ("other", "clean"))


def change_hands(folder: Path, founder: str, release: str, say: Say) -> None:
    """One directory through `STINTS`. Raises HandError."""
    node, address = single_node(folder)
    node.format(founder, "--release-version", release)
    promise = Promise("clicks")
    for stint, (whose, end) in enumerate(STINTS):
        system = founder if whose == "founder" else other_than(founder)
        node.start(system)
        try:
            clients.wait_until_up(address, node)
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
