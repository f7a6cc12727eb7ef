"""`penstock start --console`: a console beside the nodes, a process of its own that ends with this one."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.cli.terminal.lines import say
from penstock.protocol.address import Address

STOP_S: Final = 5
ANYWHERE: Final = ("0.0.0.0", "::", "")


def reachable(host: str, port: int) -> str:
    """Where a listener is for others on this machine."""
    return str(Address("127.0.0.1" if host in ANYWHERE else host, port))


async def run_beside(bootstrap_server: str, port: int, command_config: Path | None = None) -> None:
    """Until this is cancelled. It says itself where it is, and why there is none: the nodes run on."""
    options = ["--bootstrap-server", bootstrap_server, "--listen", f"127.0.0.1:{port}", "--until-eof"]
    if command_config is not None:
        options += ["--command-config", str(command_config)]
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
