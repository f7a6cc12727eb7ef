"""A bank whose tellers are transactional producers of Java, killed at each step of a transfer, as the nodes are."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.hand_in_hand.node import HandError, Say, wait_until
from bench.topics import create_topic
from tests.cluster.ledger import ACCOUNTS, PARTITIONS, TOPIC, Ledger
from tests.java.programs import LIMIT_S, Program, three_nodes

TELLERS: Final = 3
TRANSFERS: Final = 60
"""That are committed between one death and the next."""
STEPS: Final = ("begun", "half", "whole", "ending", "ended")
"""Nothing is sent yet; one record is acknowledged; both are; the end is asked for at once; it is acknowledged."""


class Bank:
    """The processes of the tellers, one after the other, and all that they have said."""

    def __init__(self, folder: Path, servers: str) -> None:
        self._folder, self._servers = folder, servers
        self._earlier: list[str] = []
        self._program: Program | None = None

    def start(self) -> None:
        numbers = [TELLERS, ACCOUNTS, PARTITIONS, max(self._said("begun"), default=0) + 1]
        self._program = Program(self._folder, "Tellers", "kafka-streams", [self._servers, *map(str, numbers)])

    def kill(self) -> None:
        if self._program is not None:
            self._earlier += self._program.kill()
            self._program = None

    def _said(self, what: str) -> set[int]:
        lines = self._earlier + (self._program.lines() if self._program is not None else [])
        return {int(line.split()[1]) for line in lines if re.fullmatch(rf"{what} \d+", line)}

    @property
    def committed(self) -> set[int]:
        return self._said("committed")

    @property
    def aborted(self) -> set[int]:
        return self._said("aborted")

    def go_on(self) -> None:
        """Until so many more transfers are committed."""
        wanted = len(self.committed) + TRANSFERS
        wait_until("transfers go on", lambda: len(self.committed) >= wanted, (), LIMIT_S)

    def at(self, step: str, do: Callable[[], None]) -> None:
        """All tellers wait at this step of a transfer; then they are let go, as that is done."""
        assert self._program is not None
        before = len(self._said(f"at-{step}"))
        self._program.tell(step)
        wait_until(
            f"all tellers are at {step!r}", lambda: len(self._said(f"at-{step}")) >= before + TELLERS, (), LIMIT_S
        )
        if step == "ending":  # what is asked for is under way
            self._program.tell("")
            do()
        else:
            do()
            if self._program is not None:
                self._program.tell("")


def kill_tellers_and_nodes(folder: Path, say: Say) -> None:
    """Whoever dies, and at whatever step: readers of committed records see transfers as a whole, or not at all."""
    with three_nodes() as cluster:
        servers = cluster.bootstrap_servers
        create_topic(servers, TOPIC, PARTITIONS, replicas=3)
        bank, ledger = Bank(folder, servers), Ledger(servers)
        bank.start()
        try:
            for step in STEPS:
                bank.go_on()
                bank.at(step, bank.kill)
                bank.start()
                for number in (1, 2, 3):
                    bank.go_on()
                    bank.at(step, cluster.node(number).kill)
                    bank.go_on()
                    cluster.node(number).start()
                say(f"at {step!r} the tellers were killed, and each node: {len(bank.committed)} transfers")
            bank.at("ended", bank.kill)  # nothing is left open
        finally:
            bank.kill()
        problem = asyncio.run(ledger.problem(bank.committed, bank.aborted))
    if problem:
        raise HandError(problem)
    say(f"{len(bank.committed)} transfers were committed, {len(bank.aborted)} aborted: the sum is what it was")
