"""How a command's work is run, and stopped."""

import asyncio
import os
import signal

import click
import pytest

from penstock.cli.terminal.session import TERMINATED, run


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
