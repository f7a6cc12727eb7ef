"""How a command's work is run, and stopped."""

import asyncio
import os
import signal
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from penstock.cli.main import main
from penstock.cli.terminal.session import TERMINATED, run

GROUPS = (("features", "describe"), ("transactions", "list"), ("metadata-quorum", "describe", "--status"))
"""Those of Kafka's tools whose options of the client stand before the subcommand."""


def test_sigterm_lets_work_take_back_what_it_began() -> None:
    taken_back = []

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            taken_back.append("all")

    with pytest.raises(click.exceptions.Exit) as ended:
        run(work())
    assert ended.value.exit_code == TERMINATED
    assert taken_back == ["all"]


@pytest.mark.parametrize("words", GROUPS, ids=lambda words: str(words[0]))
def test_the_clients_file_may_be_named_before_the_subcommand_as_for_kafkas_tools(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    before, behind = (tmp_path / name for name in ("before", "behind"))
    for file, port in ((before, 1), (behind, 2)):
        file.write_text(f"bootstrap.servers=127.0.0.1:{port}\ndefault.api.timeout.ms=1\n")
    group, *subcommand = words
    first = [group, "--command-config", str(before), *subcommand]
    assert "127.0.0.1:1" in CliRunner().invoke(main, first).output
    assert "127.0.0.1:2" in CliRunner().invoke(main, [*first, "--command-config", str(behind)]).output
