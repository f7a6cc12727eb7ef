"""The node that stays when the demo is over (`make demo KEEP=1`): the same data, a process of its own."""

import subprocess
import sys
from pathlib import Path

ADDRESS = "127.0.0.1:9092"


def keep_running(data: Path) -> int | None:
    """Start `penstock start` on the demo's data; its process id, or None if it did not start (the log says why)."""
    log = data.parent / "node.log"
    command = [sys.executable, "-m", "penstock", "start", "--set", f"log.dirs={data}"]
    with log.open("wb") as output:
        node = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    while node.poll() is None:
        if b"listens on" in log.read_bytes():
            return node.pid
    return None


def what_next(pid: int) -> str:
    """What one may try on the node that stays."""
    penstock = Path(sys.executable).with_name("penstock")
    shown = penstock.relative_to(Path.cwd()) if penstock.is_relative_to(Path.cwd()) else penstock
    return "\n".join(
        [
            f"The node goes on, on {ADDRESS} (process {pid}). Try:",
            f"  {shown} topics --list",
            f"  {shown} consume --topic delays --from-beginning --max-messages 5",
            f"  {shown} groups --describe --group delay-readers",
            f"  kill {pid}    # stops it",
        ]
    )
