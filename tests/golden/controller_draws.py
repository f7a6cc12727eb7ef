"""Draws what a controller is told, as a transcript: `python -m tests.golden.controller_draws FIRST COUNT`.

The commands are written to `controller_drawn.txt`; `pytest tests/golden --rewrite` adds the answers.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.golden.controller_script import ControllerScript
from tests.golden.draws import Draw, write_histories

from penstock.metadata.image import BrokerImage, ClusterImage

STEPS = 36
BROKERS = range(1, 6)
RACKS = {1: "east", 2: "west", 3: "east", 4: "west", 5: "south"}
TITLE = "# Histories drawn by chance (`controller_draws.py`): brokers come and go, partitions move, leaders change."


class ControllerHistory(Draw[ControllerScript]):
    """Commands that make sense where the cluster stands, and some that do not."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, ControllerScript())
        self.incarnations = 10

    @property
    def image(self) -> ClusterImage:
        return self.lecture.controller.image

    def history(self) -> list[str]:
        self.say("anew")
        if self.draw(True, True, False):
            self.say("newest")
        racks = self.draw(True, False)
        named = [f"{broker}@{RACKS[broker]}" if racks else str(broker) for broker in BROKERS[: self.draw(2, 3, 4, 5)]]
        self.say(f"brokers {' '.join(named)} dirs=own")
        self.say(f"create orders partitions=3 replicas={min(len(named), 3)}")
        for _ in range(2):
            self.create()
        kinds: dict[Callable[[], None], int] = {
            self.create: 4, self.delete: 1, self.grow: 2, self.configure: 5, self.register: 3, self.beat: 14,
            self.unregister: 1, self.later: 6, self.in_sync: 14, self.elect: 5, self.balance: 2, self.move: 6,
            self.group: 2, self.claim: 4, self.producer_ids: 1, self.look: 3,
        }  # fmt: skip
        self.steps(STEPS, kinds)
        self.say("later 60000")
        self.say("moves")
        self.say("image")
        return self.said

    def some(self, most: int = 3) -> str:
        """Replicas."""
        known = list(self.image.brokers) if self.draw(*[True] * 9, False) else list(BROKERS)
        return ",".join(map(str, self.random.sample(known, min(len(known), self.draw(*range(1, most + 1))))))

    def topic(self) -> str:
        return str(self.draw(*self.image.topics)) if self.image.topics else "orders"

    def partition(self) -> str:
        name = self.draw(
            *[name for name in self.image.topics if name != "__storage_group" or self.draw(True, False)] or ["orders"]
        )
        return f"{name}-{self.draw(*self.image.topics[name].partitions)}"

    def broker(self) -> BrokerImage:
        return self.image.brokers[self.draw(*self.image.brokers)]

    def create(self) -> None:
        name = self.draw("orders", "a.b", "a_b", "flights", "delays")
        how = self.draw(
            f"partitions={self.draw(1, 2, 3)} replicas={self.draw(1, 2, 3, 3)}",
            f"assign={self.some()}/{self.some()}",
            f"assign={self.some()}",
            "",
        )
        configs = self.draw("", "", " config.min.insync.replicas=2", " config.retention.ms=5", " config.nonsense=1")
        self.say(f"create {name} {how}{configs}{self.draw('', '', '', '', ' validate')}")

    def delete(self) -> None:
        self.say(f"delete {self.topic()}")

    def grow(self) -> None:
        assign = self.draw("", "", f" assign={self.some()}")
        self.say(f"partitions {self.topic()} {self.draw(1, 2, 3, 4)}{assign}{self.draw('', '', ' validate')}")

    def configure(self) -> None:
        kind, name = self.draw(("topic", self.topic()), ("topic", self.topic()), ("broker", self.draw("''", "1", "9")))
        operation = self.draw("set", "set", "delete", "append", "subtract")
        pairs = (
            f"min.insync.replicas={self.draw(1, 2, 0)}",
            f"cleanup.policy={self.draw('compact', 'delete', '')}",
            f"unclean.leader.election.enable={self.draw('true', 'false')}",
            f"retention.ms={self.draw(-1, 100, 'x')}",
        )
        validate = self.draw("", "", "", " validate")
        whole = self.draw(True, False, False, False)
        command = f"replace {kind} {name}" if whole else f"configs {kind} {name} {operation}"
        self.say(f"{command} {self.draw(*pairs)}{validate}")

    def register(self) -> None:
        self.incarnations += 1
        broker = self.draw(*BROKERS)
        known = self.image.brokers.get(broker)
        previous = f" previous={known.epoch}" if known is not None and self.draw(True, True, False) else ""
        dirs = self.draw(str(broker), f"{broker},{broker + 10}", str(broker + 20), "")
        self.say(f"register {broker} incarnation={self.incarnations}{previous} rack={RACKS[broker]} dirs={dirs}")

    def beat(self) -> None:
        if not self.image.brokers:
            return
        broker = self.broker()
        seen = self.lecture.controller.state.next_offset - 1
        epoch = broker.epoch - self.draw(*[0] * 9, 1)
        words = self.draw(*[""] * 8, " fence", " stop", f" offline={broker.node_id}")
        self.say(f"heartbeat {broker.node_id} {epoch} seen={max(seen - self.draw(0, 0, 0, 0, 30), 0)}{words}")

    def unregister(self) -> None:
        self.say(f"unregister {self.draw(*BROKERS)}")

    def later(self) -> None:
        self.say(f"later {self.draw(10, 1_000, 3_000, 3_000, 9_001)}")

    def in_sync(self) -> None:
        if "orders" not in self.image.topics:
            return
        asked = self.partition()
        name, _, index = asked.rpartition("-")
        state = self.image.topics[name].partitions[int(index)]
        leader = state.leader if self.draw(*[True] * 7, False) else self.draw(*state.replicas)
        if leader not in self.image.brokers:
            return
        followers = [replica for replica in state.replicas if replica != leader]
        isr = [leader, *self.random.sample(followers, self.random.randrange(len(followers) + 1))]
        isr = isr if self.draw(*[True] * 9, False) else [*isr, self.draw(*BROKERS)]
        late = "" if self.draw(*[True] * 9, False) else f" epoch={state.leader_epoch - 1}"
        self.say(f"in-sync {leader} {asked} {','.join(map(str, isr))}{late}")

    def elect(self) -> None:
        if "orders" in self.image.topics:
            self.say(f"elect {self.draw('preferred', 'unclean')} {self.partition()}")

    def balance(self) -> None:
        self.say(f"balance {self.draw('tell', 'begin', 'begin', 'stop')}")

    def move(self) -> None:
        if "orders" in self.image.topics:
            asked = self.partition()
            self.say(
                self.draw(f"move {asked} {self.some()}", f"move {asked} {self.some()}", f"cancel {asked}", "moves")
            )

    def group(self) -> None:
        self.say(f"group {self.draw('replicas=2', 'replicas=3', f'assign={self.some()}', '')}".rstrip())

    def claim(self) -> None:
        groups = self.image.storage_groups
        if not groups or not self.image.brokers:
            return
        number = self.draw(*groups)
        one = groups[number]
        leader = self.draw(*one.replicas, self.draw(*BROKERS))
        voters = [voter for voter in one.replicas if voter in self.image.brokers]
        if leader not in self.image.brokers or not all(self.image.brokers[voter].directories for voter in voters):
            return
        epoch, caught_up = max(one.leader_epoch + self.draw(0, 1, 1), 0), ",".join(map(str, one.replicas))
        voting = self.draw("", f" voters={','.join(map(str, voters))}" if voters else "")
        self.say(f"claim {leader} {number} epoch={epoch} {caught_up}{voting}")

    def producer_ids(self) -> None:
        broker = self.draw(*BROKERS)
        known = self.image.brokers.get(broker)
        self.say(f"producer-ids {broker} {known.epoch if known is not None else 3}")

    def look(self) -> None:
        self.say(self.draw("image", "moves", "image"))


def main() -> None:
    write_histories("controller_drawn.txt", TITLE, lambda seed: ControllerHistory(seed).history())


if __name__ == "__main__":
    main()
