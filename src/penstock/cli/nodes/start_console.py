"""`penstock start --console`: a console beside the nodes, a process of its own that ends with this one."""

import asyncio
import os
import secrets
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from penstock.cli.terminal.lines import say
from penstock.protocol.address import Address

STOP_S: Final = 5
PASSWORD_BYTES: Final = 15
ANYWHERE: Final = ("0.0.0.0", "::", "")


def reachable(host: str, port: int) -> str:
    """Where a listener is for others on this machine."""
    return str(Address("127.0.0.1" if host in ANYWHERE else host, port))


def write_users(file: Path, user: str) -> None:
    """For `--users`: one user with a new password, unless the file is there. It is for its owner's eyes alone."""
    with suppress(FileExistsError), open(file, "x", opener=partial(os.open, mode=0o600), encoding="utf-8") as written:
        written.write(f"{user}={secrets.token_urlsafe(PASSWORD_BYTES)}\n")


async def run_beside(bootstrap_server: str, port: int, more: Sequence[str] = ()) -> None:
    """Until this is cancelled. It says itself where it is, and why there is none: the nodes run on."""
    options = ["--bootstrap-server", bootstrap_server, "--listen", f"127.0.0.1:{port}", "--until-eof", *more]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "penstock", "console", *options),
        stdin=asyncio.subprocess.PIPE,  # it ends with this process, however that ends
    )
    try:
        code = await process.wait()
        say(f"the console ended with exit code {code}; to start it again: penstock console", err=True)
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_S):
                    await process.wait()
