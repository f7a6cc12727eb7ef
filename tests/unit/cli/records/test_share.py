"""`penstock consume --share`: what becomes of the records that it prints, and of those that it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result
from tests.unit.client.share.brokers import ACCEPT, REJECT, RELEASE, TOPIC, brokers_that_share

from penstock.cli.main import main

OPTIONS = "--share", "--topic", TOPIC, "--timeout-ms", "5000", "--command-property", "fetch.max.wait.ms=100"


def consume(*options: str) -> Result:
    return CliRunner().invoke(main, ["consume", *options])


async def shared(*options: str) -> tuple[Result, dict[int, list[int]], list[int]]:
    """The command, what it said of each record, and what is left; three are there, the second with a wrong key."""
    async with brokers_that_share() as brokers:
        brokers.produce(0, b"a", b"b", b"c")
        address = brokers.bootstrap
        result = await asyncio.to_thread(consume, *OPTIONS, *options, "--bootstrap-server", address)
        assert brokers.members == {}
        assert brokers.partitions[0].owners == {}
        return result, brokers.partitions[0].said, list(brokers.partitions[0].values)


@pytest.mark.parametrize(
    ("option", "kind", "left"),
    [("--accept", ACCEPT, [2]), ("--reject", REJECT, [2]), ("--release", RELEASE, [0, 1, 2])],
)
async def test_what_is_printed_is_acknowledged_and_the_rest_released(option: str, kind: int, left: list[int]) -> None:
    result, said, values = await shared(option, "--max-messages", "2")
    assert (result.exit_code, result.stdout) == (0, "a\nb\n")
    assert (said, values) == ({0: [kind], 1: [kind]}, left)


async def test_it_accepts_by_default() -> None:
    assert (await shared("--max-messages", "3"))[1] == {0: [ACCEPT], 1: [ACCEPT], 2: [ACCEPT]}


def _unless(value: bytes) -> Callable[..., bytes]:
    def write(record: object) -> bytes:
        if getattr(record, "value", None) == value:
            raise ValueError("it cannot be shown")
        return b"%b\n" % getattr(record, "value", b"")

    return write


async def test_what_cannot_be_shown_is_rejected_if_asked() -> None:
    with patch("penstock.cli.records.consume.Shape.writer", lambda _, as_json: _unless(b"b")):
        result, said, _ = await shared("--reject-message-on-error", "--max-messages", "3")
        assert (said, result.stdout) == ({0: [ACCEPT], 1: [REJECT], 2: [ACCEPT]}, "a\nc\n")
        assert "t-0 at offset 1 is rejected: it cannot be shown" in result.stderr
        result, said, _ = await shared("--max-messages", "3")
        assert (said, result.exit_code != 0) == ({0: [ACCEPT]}, True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--share",), "--share needs --topic NAME"),
        (("--share", "--topic", "t", "--from-beginning"), "share.auto.offset.reset"),
        (("--share", "--topic", "t", "--partition", "0"), "--share needs --topic NAME"),
        (("--topic", "t", "--release"), "need --share"),
        (("--share", "--topic", "t", "--release", "--reject"), "one of --accept, --release, --reject"),
    ],
)
def test_wrong_usage_is_named(options: tuple[str, ...], words: str) -> None:
    result = consume(*options)
    assert result.exit_code == 2
    assert words in result.output.replace("\n", " ")
