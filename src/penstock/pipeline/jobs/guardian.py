"""Runs a command, and ends it with all that it has started when its permission to run expires; a folder that has its
temporary files is removed then.

A program of its own that needs Python's library only, so that neither the command nor a worker that was killed, stopped
or cut off can keep it from that. It leads the process group of all. On its standard input come lines of JSON:

    {"until": 123.4, "input": "…"}   the command may run until then, by time.monotonic(), which is the same for all
                                     processes of a machine; the first line has what it gets on its standard input
    {"stop": true}                   it is to end in good order

The end of its input kills the group, and so does the end of the time. The last line of output is {"exit": code}.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

LOOK_EVERY_S = 0.1
READ_BYTES = 1 << 16
GONE_WITHIN_S = 10.0
FOLDER = "PENSTOCK_JOB_FILES"
"""The variable that names the folder: a worker that began before it was there says none."""
CHANNEL = "PENSTOCK_JOB_CHANNEL"
"""The variable with the number of a descriptor that the command gets as well: its worker has more to say to it."""


def main(command: Sequence[str]) -> None:
    """Never returns: the group is killed at the end, and the guardian with it."""
    folder = os.environ.pop(FOLDER, None)
    if folder is not None:
        os.environ["TMPDIR"] = folder
    try:
        guard(command)
    finally:
        try:
            if folder is not None:
                tidy_up_later(folder)
        finally:
            os.killpg(os.getpgrp(), signal.SIGKILL)


def tidy_up_later(folder: str) -> None:
    """A process that outlives the group removes the folder when nobody is left to write into it.

    Returns when it has left the group.
    """
    group, (has_left, leaves) = os.getpgrp(), os.pipe()
    if os.fork():
        os.close(leaves)
        os.read(has_left, 1)
        return
    os.setsid()
    for descriptor in (leaves, 0, 1, 2):  # whoever reads waits for their end
        os.close(descriptor)
    wait_until_gone(group)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def wait_until_gone(group: int) -> None:
    """Or for `GONE_WITHIN_S`."""
    deadline_s = time.monotonic() + GONE_WITHIN_S
    while _is_there(group) and time.monotonic() < deadline_s:
        time.sleep(LOOK_EVERY_S)


def _is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True


def guard(command: Sequence[str]) -> None:
    """Until the command has ended, or may not go on."""
    messages = read_messages(sys.stdin.fileno())
    first = next(message for message in messages if message)
    until = float(first["until"])
    if time.monotonic() >= until:  # its worker stood still before it started this
        return
    with tempfile.TemporaryFile() as given:
        given.write(first.get("input", "").encode())
        given.seek(0)
        channel = [int(number) for number in [os.environ.get(CHANNEL)] if number]
        child = subprocess.Popen(command, stdin=given, pass_fds=channel)
    for descriptor in channel:  # its end is to be seen when the command has ended
        os.close(descriptor)
    for message in messages:
        until = float(message.get("until", until))
        if time.monotonic() >= until:
            return
        if "stop" in message:
            child.terminate()
        if child.poll() is not None:
            sys.stdout.write(json.dumps({"exit": child.returncode}) + "\n")
            sys.stdout.flush()
            return


def read_messages(descriptor: int) -> Iterator[dict[str, Any]]:
    """Messages as they come, and {} whenever none has come for a moment; ends with the input."""
    rest = b""
    while True:
        if not select.select([descriptor], [], [], LOOK_EVERY_S)[0]:
            yield {}
            continue
        read = os.read(descriptor, READ_BYTES)
        if not read:
            return
        *lines, rest = (rest + read).split(b"\n")
        yield from map(json.loads, lines)


if __name__ == "__main__":
    main(sys.argv[1:])
