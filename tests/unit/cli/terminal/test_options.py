"""What options say: moments, durations, names, lists of changes, pairs."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from penstock.cli.cluster.configs import parse_additions
from penstock.cli.main import main
from penstock.cli.terminal.names import matching, parse_numbers, parse_topic_partitions
from penstock.cli.terminal.options import one_of
from penstock.cli.terminal.output import show_bytes
from penstock.cli.terminal.session import parse_pairs
from penstock.cli.terminal.times import parse_datetime_ms
from penstock.client.durations import parse_duration_ms
from penstock.client.values import TopicPartition


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01.500", 1_500),
        ("1970-01-01T00:00:01Z", 1_000),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1970-01-02", 86_400_000),
    ],
)
def test_moments(text: str, expected: int) -> None:
    assert parse_datetime_ms(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("P1D", 86_400_000), ("PT2H30M", 9_000_000), ("P1DT1S", 86_401_000), ("PT0.5S", 500), ("-PT1S", -1_000)],
)
def test_durations(text: str, expected: int) -> None:
    assert parse_duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "P", "1D", "P1H", "soon"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        parse_duration_ms(text)


def test_what_is_no_moment() -> None:
    with pytest.raises(ValueError, match="is no moment"):
        parse_datetime_ms("yesterday")


def test_names_by_expression() -> None:
    names = ["clicks", "clicks.raw", "clicksxraw", "users"]
    assert matching("clicks.raw", names, "--topic") == ["clicks.raw", "clicksxraw"]
    assert matching("users, click.", names, "--topic") == ["clicks", "users"]
    with pytest.raises(click.UsageError, match="is no regular expression"):
        matching("(", names, "--topic")


def test_partitions_of_topics() -> None:
    assert parse_numbers("0,2,5-7", "--partitions") == [0, 2, 5, 6, 7]
    assert parse_topic_partitions("t", {"t": 2}, "--topic") == [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert parse_topic_partitions("t:1", {"t": 2}, "--topic") == [TopicPartition("t", 1)]
    for text, complaint in [("u", "does not exist"), ("t:2", "has no partition 2"), ("t:x", "is not a list")]:
        with pytest.raises(click.UsageError, match=complaint):
            parse_topic_partitions(text, {"t": 2}, "--topic")


def test_changes_of_configurations() -> None:
    assert parse_additions("a=1, b=[x,y],c=,d=p=q") == {"a": "1", "b": "x,y", "c": "", "d": "p=q"}
    for text in ("a", "a=1,b", "=1", "a=[1"):
        with pytest.raises(click.UsageError, match="is not key=value"):
            parse_additions(text)


def test_pairs() -> None:
    assert parse_pairs(("a = 1", "b=c=d"), "--config") == {"a": "1", "b": "c=d"}
    with pytest.raises(click.UsageError, match="--config: 'a' is not key=value"):
        parse_pairs(("a",), "--config")


def test_exactly_one_action() -> None:
    assert one_of({"list": False, "describe": True}) == "describe"
    with pytest.raises(click.UsageError, match=r"exactly one of --list, --describe$"):
        one_of({"list": False, "describe": False})


@pytest.mark.parametrize(
    ("size", "shown"), [(-1, "-"), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 50, "5120.0 TiB")]
)
def test_sizes(size: int, shown: str) -> None:
    assert show_bytes(size) == shown


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["leaders", "show", "--command-config", "FILE"], "client.properties"),
        (["pipeline", "check", "FILE"], "flights.yaml"),
        (["pipeline", "submit", "FILE"], "flights.yaml"),
    ],
)
def test_a_file_that_is_no_text_is_named(tmp_path: Path, arguments: list[str], name: str) -> None:
    file = tmp_path / name
    file.write_bytes(b"\xa6\xff")
    result = CliRunner().invoke(main, [argument.replace("FILE", str(file)) for argument in arguments])
    assert result.exit_code == 1
    assert f"{file} cannot be read: 'utf-8' codec" in result.output
