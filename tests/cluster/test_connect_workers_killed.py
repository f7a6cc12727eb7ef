"""Workers that share connectors, as processes: the first of them is killed, and what it ran goes on elsewhere.

It mostly leads, but whoever knows most of the configuration when a generation begins may do so.
"""

import urllib.error
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Consumer
from tests.cluster.connect_processes import BROKER, SECONDS, a_worker, ask, is_healthy, worker_file

from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

FILES = 6
SESSION_MS = 6_000
"""Of the worker that is killed: so soon others have what it ran."""
PATIENT_MS = 60_000
"""Of those that live: who is held up by a busy machine for longer than its session loses what it runs, as it should."""


def owners(url: str) -> dict[str, str] | None:
    """Which worker runs the task of each connector, when all run."""
    found = ask("GET", f"{url}/connectors?expand=status")
    tasks = {name: one["status"]["tasks"] for name, one in found.items() if "status" in one}
    if len(tasks) != FILES or any([task["state"] for task in of] != ["RUNNING"] for of in tasks.values()):
        return None
    return {name: of[0]["worker_id"] for name, of in tasks.items()}


def leader(url: str) -> str | None:
    """Which worker runs the connectors; None while no status of one is known."""
    found = ask("GET", f"{url}/connectors?expand=status")
    worker_id: str | None = found.get("lines-0", {}).get("status", {}).get("connector", {}).get("worker_id")
    return worker_id


def append(directory: Path, text: str) -> set[str]:
    for number in range(FILES):
        with (directory / f"file-{number}").open("a") as file:
            file.write(f"{text} {number}\n")
    return {f"{text} {number}" for number in range(FILES)}


def test_what_a_killed_worker_ran_goes_on_elsewhere(tmp_path: Path) -> None:
    with Cluster(config=BROKER) as cluster, ExitStack() as stack:
        mortal, first = stack.enter_context(a_worker(worker_file(tmp_path, cluster.bootstrap_servers, SESSION_MS)))
        wait_until(lambda: is_healthy(first), SECONDS, "a healthy worker")
        config = worker_file(tmp_path, cluster.bootstrap_servers, PATIENT_MS)
        asked, _ = [stack.enter_context(a_worker(config))[1] for _ in range(2)]
        expected = append(tmp_path, "before")
        for number in range(FILES):
            lines = {"connector.class": "FileStreamSource", "file": str(tmp_path / f"file-{number}"), "topic": "lines"}
            wait_until(lambda n=number, c=lines: put(first, n, c), SECONDS, "a leader")  # type: ignore[misc]
        spread = wait_until(lambda: balanced(owners(first)), SECONDS, "two tasks on each worker")
        consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["lines"])
        found: list[str] = []
        read_until(consumer, found, expected)

        gone = first.removeprefix("http://")
        mortal.kill()
        expected |= append(tmp_path, "after")
        read_until(consumer, found, expected)
        wait_until(lambda: leader(asked) not in (gone, None) or None, SECONDS, "connectors elsewhere")

        def elsewhere() -> dict[str, str] | None:
            found = owners(asked)
            return None if found is None or gone in found.values() else found

        after = wait_until(elsewhere, SECONDS, "tasks elsewhere")
        stayed = {name for name, owner in spread.items() if owner != gone}
        assert len(stayed) == FILES - 2
        assert {name: after[name] for name in stayed} == {name: spread[name] for name in stayed}
        consumer.close()


def put(url: str, number: int, config: dict[str, str]) -> bool | None:
    """Create a connector, as soon as the workers know who leads."""
    try:
        ask("PUT", f"{url}/connectors/lines-{number}/config", config)
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise
        return None
    return True


def balanced(found: dict[str, str] | None) -> dict[str, str] | None:
    counts = sorted(list((found or {}).values()).count(owner) for owner in set((found or {}).values()))
    return found if counts == [2, 2, 2] else None


def read_until(consumer: Consumer, found: list[str], expected: set[str]) -> None:
    def read() -> bool | None:
        found.extend((message.value() or b"").decode() for message in consumer.consume(100, 0.1))
        return expected <= set(found) or None

    wait_until(read, SECONDS, "all lines")
    assert set(found) == expected
