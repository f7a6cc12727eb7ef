"""Draws what producers do, as a transcript: `python -m tests.golden.transaction_draws FIRST COUNT`.

The commands are written to `transactions/drawn.txt`; `pytest tests/golden --rewrite` adds the answers.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.golden.draws import Draw, write_histories
from tests.golden.transaction_lecture import TransactionLecture

from penstock.coordinator.effects import Markers
from penstock.coordinator.transaction.transaction import MAX_EPOCH, WITHOUT_TIMEOUT_MS

STEPS = 32
TITLE = "# Histories drawn by chance (`transaction_draws.py`): all that producers do, and what becomes of it."
REFUSED = ("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION", "INVALID_PRODUCER_EPOCH", "UNSUPPORTED_VERSION")


class TransactionsHistory(Draw[TransactionLecture]):
    """Requests that make sense where the transactional ids stand, and some that do not."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, TransactionLecture())

    def history(self) -> list[str]:
        version = self.draw(0, 1, 2, 2)
        near_the_end = f" pay=7/{MAX_EPOCH - self.draw(1, 2, 3)}" if self.draw(True, False, False) else ""
        self.say(f"anew version={version}{near_the_end}")
        if not near_the_end:
            self.say("init pay 1000")
            self.say("bring")
            self.say("commit")
        kinds: dict[Callable[[], None], int] = {
            self.init: 10, self.add: 14, self.end: 12, self.verify: 3, self.settle: 22, self.fail: 2, self.advance: 6,
            self.stall: 2, self.look: 3, self.restart: 1, self.version: 1,
        }  # fmt: skip
        self.steps(STEPS, kinds)
        self.say("look pay")
        self.say("calm")
        self.say("look bill")
        self.say("end-it")
        return self.said

    @property
    def name(self) -> str:
        return str(self.draw("pay", "pay", "pay", "bill"))

    def producer(self, name: str) -> str:
        """Who has the id, or had it, or has never been one."""
        known = self.lecture.shard._table.known(name)
        if known is None:
            return "7/0"
        owner = known.owner
        others = (
            f"{known.producer_id}/{known.producer_epoch}",
            f"{owner.producer_id}/{max(owner.epoch - 1, 0)}",
            f"{known.previous_producer_id}/{MAX_EPOCH - 1}",
            f"{owner.producer_id}/{owner.epoch + 1}",
            "999/0",
        )
        return str(self.draw(*[f"{owner.producer_id}/{owner.epoch}"] * 9, *others))

    @property
    def partitions(self) -> str:
        return " ".join(f"t-{index}" for index in sorted(self.random.sample(range(4), self.draw(1, 1, 2))))

    def init(self) -> None:
        name = self.name
        asked_by = f" as={self.producer(name)}" if self.draw(True, False) else ""
        timeout_ms = self.draw(300, 1_000, 5_000, 60_000, WITHOUT_TIMEOUT_MS)
        self.say(f"init {name} {timeout_ms}{asked_by}{self.draw('', '', ' keeps')}")

    def add(self) -> None:
        name = self.name
        self.say(f"add {name} {self.producer(name)} {self.partitions} client={self.draw(0, 1, 2)}")

    def verify(self) -> None:
        name = self.name
        self.say(f"verify {name} {self.producer(name)} {self.partitions}")

    def end(self) -> None:
        name = self.name
        for _ in range(self.draw(1, 1, 2)):
            self.say(f"end {name} {self.producer(name)} {self.draw('commit', 'abort')}{self.draw('', ' raises')}")

    def settle(self) -> None:
        """What is under way goes on: writes, then errands."""
        if self.lecture.appends:
            self.say(self.draw("commit", "commit", "commit 1"))
        elif self.lecture.errands:
            self.say(f"bring{self.answer()}")

    def answer(self) -> str:
        job = self.lecture.errands[0].job
        if self.draw(*[False] * 6, True):
            return " NETWORK_EXCEPTION"
        if not isinstance(job, Markers) or self.draw(True, True, False):
            return ""
        topic, index = self.draw(*job.partitions) if job.partitions else ("t", 0)
        return f" {topic}-{index}={self.draw(*REFUSED, *REFUSED, 'TRANSACTION_COORDINATOR_FENCED')}"

    def fail(self) -> None:
        if self.lecture.appends:
            self.say(f"fail {self.draw('NOT_ENOUGH_REPLICAS', 'NOT_LEADER_OR_FOLLOWER', 'MESSAGE_TOO_LARGE')}")

    def stall(self) -> None:
        """An end that cannot be written, until the transaction's time is over."""
        known = self.lecture.shard._table.known("pay")
        if known is not None and not self.lecture.appends:
            owner = known.owner
            self.say(f"end pay {owner.producer_id}/{owner.epoch} commit")
            self.say(f"advance {self.draw(1_000, 6_000)}")
            self.fail()

    def advance(self) -> None:
        self.say(f"advance {self.draw(10, 20, 60, 100, 100, 400, 1_000, 1_000, 6_000, 25_000)}")

    def look(self) -> None:
        self.say(f"look {self.name}")

    def restart(self) -> None:
        self.say("restart")

    def version(self) -> None:
        self.say(f"version {self.draw(0, 1, 2)}")


def main() -> None:
    write_histories("transactions/drawn.txt", TITLE, lambda seed: TransactionsHistory(seed).history())


if __name__ == "__main__":
    main()
