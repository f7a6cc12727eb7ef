"""Which ways `penstock security doctor` goes, and what it says of each, over examinations whose ends are said."""

from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import main
from penstock.cli.security import doctor
from penstock.cli.security.examination import EndError
from penstock.client.errors import ClientError
from penstock.protocol.acls import Operation
from penstock.protocol.address import Address

A, B, C = Address("a", 1), Address("b", 2), Address("c", 3)


class Ways:
    """By address, where the way ends; it comes through where nothing is said."""

    def __init__(self) -> None:
        self.ends: dict[Address, EndError] = {}
        self.brokers: dict[int, Address] = {7: A}
        self.asked: list[Any] = []
        self.refusal: Exception | None = None

    def examination(self, address: Address, settings: Any) -> "Examination":
        return Examination(self, address)

    def on_cluster(self, connection: "Connection") -> tuple[str, dict[int, Address]]:
        self.asked.append(("cluster", connection.address))
        if self.refusal is not None:
            raise self.refusal
        return "on the cluster: all", self.brokers

    def on_topic(self, connection: object, who: str, topic: str, wanted: tuple[Operation, ...]) -> str:
        self.asked.append((who, topic, *wanted))
        return f"on topic {topic}: all"

    def on_group(self, connection: object, who: str, group: str) -> str:
        self.asked.append((who, group))
        return f"on group {group}: all"


class Connection:
    def __init__(self, ways: Ways, address: Address) -> None:
        self.ways, self.address = ways, address

    def close(self) -> None:
        self.ways.asked.append("closed")


class Examination:
    principal = "User:me"

    def __init__(self, ways: Ways, address: Address) -> None:
        self._ways, self._address = ways, address

    def stages(self) -> Iterator[tuple[str, str]]:
        yield "DNS", "found"
        if self._address in self._ways.ends:
            raise self._ways.ends[self._address]
        yield "KAFKA", "answers"

    def connect(self) -> Connection:
        return Connection(self._ways, self._address)


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Ways:
    found = Ways()
    monkeypatch.setattr(doctor, "Examination", found.examination)
    for name in ("on_cluster", "on_topic", "on_group"):
        monkeypatch.setattr(doctor, name, getattr(found, name))
    return found


def run(*words: str, at: str = "a:1") -> Result:
    return CliRunner().invoke(main, ["security", "doctor", "--bootstrap-server", at, *words])


THROUGH = ["  DNS       found", "  KAFKA     answers"]


def test_all_is_well(ways: Ways) -> None:
    result = run()
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        ["a:1, a bootstrap server", *THROUGH, "  RIGHTS    User:me, on the cluster: all", "all is well"],
    )
    assert ways.asked == [("cluster", A), "closed"]


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (("--topic", "t"), [("User:me", "t")]),
        (("--topic", "t", "--producer"), [("User:me", "t", Operation.WRITE)]),
        (("--topic", "t", "--consumer"), [("User:me", "t", Operation.READ)]),
        (("--topic", "t", "--consumer", "--producer"), [("User:me", "t", Operation.WRITE, Operation.READ)]),
        (("--group", "g"), [("User:me", "g")]),
        (("--topic", "t", "--group", "g"), [("User:me", "t"), ("User:me", "g")]),
    ],
)
def test_what_the_client_is_about(words: tuple[str, ...], asked: list[Any], ways: Ways) -> None:
    lines = run(*words).stdout.splitlines()
    assert ways.asked == [("cluster", A), *asked, "closed"]
    names = [f"  RIGHTS    on {'topic' if one[1] == 't' else 'group'} {one[1]}: all" for one in asked]
    assert lines[3:] == ["  RIGHTS    User:me, on the cluster: all", *names, "all is well"]


def test_each_broker_is_gone_to_where_it_says_that_it_listens(ways: Ways) -> None:
    ways.brokers = {7: A, 8: B, 9: C}
    assert run().stdout.splitlines()[4:] == [
        "b:2, where broker 8 says that it listens",
        *THROUGH,
        "c:3, where broker 9 says that it listens",
        *THROUGH,
        "all is well",
    ]


@pytest.mark.parametrize(
    ("stage", "hint"),
    [
        ("DNS", "; that address is in advertised.listeners of the broker"),
        ("TCP", "; that address is in advertised.listeners of the broker"),
        ("TLS", ""),
        ("SASL", ""),
    ],
)
def test_the_way_to_a_broker_may_end(stage: str, hint: str, ways: Ways) -> None:
    ways.brokers, ways.ends = {8: B, 9: C}, {B: EndError(stage, "no way")}
    result = run()
    assert (result.exit_code, result.stderr) == (1, f"Error: it ends at {stage}: no way{hint}\n")
    assert result.stdout.splitlines()[-2:] == ["b:2, where broker 8 says that it listens", "  DNS       found"]


def test_one_of_several_addresses_is_enough(ways: Ways) -> None:
    ways.ends = {A: EndError("TCP", "nobody there"), C: EndError("DNS", "nobody knows it")}
    ways.brokers = {7: B}
    result = run(at="a:1,b:2,c:3")
    assert result.stdout.splitlines() == [
        "a:1, a bootstrap server",
        "  DNS       found",
        "  TCP       nobody there",
        "b:2, a bootstrap server",
        *THROUGH,
        "c:3, a bootstrap server",
        "  DNS       found",
        "  DNS       nobody knows it",
        "  RIGHTS    User:me, on the cluster: all",
        "all is well",
    ]
    assert ways.asked[0] == ("cluster", B)


def test_the_first_end_is_told_where_none_is_reached(ways: Ways) -> None:
    ways.ends = {A: EndError("TCP", "nobody there"), B: EndError("DNS", "nobody knows it")}
    result = run(at="a:1,b:2")
    assert (result.exit_code, result.stderr) == (1, "Error: it ends at TCP: nobody there\n")
    assert ways.asked == []


def test_of_one_address_the_end_is_told_once(ways: Ways) -> None:
    ways.ends = {A: EndError("TCP", "nobody there")}
    result = run()
    assert result.stdout.splitlines() == ["a:1, a bootstrap server", "  DNS       found"]


def test_an_end_behind_the_network_is_one_for_all(ways: Ways) -> None:
    ways.ends = {A: EndError("TLS", "no trust")}
    result = run(at="a:1,b:2")
    assert (result.exit_code, result.stderr) == (1, "Error: it ends at TLS: no trust\n")
    assert result.stdout.splitlines() == ["a:1, a bootstrap server", "  DNS       found"]


@pytest.mark.parametrize(
    ("refusal", "text"),
    [
        (ClientError("gone"), "RIGHTS: gone"),
        (OSError("broken"), "RIGHTS: broken"),
        (EndError("RIGHTS", "you may not"), "RIGHTS: you may not"),
        (ValueError("odd"), "SETTINGS: odd"),
    ],
)
def test_rights_that_are_not_told(refusal: Exception, text: str, ways: Ways) -> None:
    ways.refusal = refusal
    assert run().stderr == f"Error: it ends at {text}\n"
    assert ways.asked == [("cluster", A), "closed"]
