"""`python -m penstock.pipeline.jobs.installed FILE FOLDER COMMAND …`: becomes the command when the packages are there.

They are installed by pip, once for each FOLDER, before it begins; what pip says is seen in the job's log.
"""

import os
import subprocess
import sys
from pathlib import Path

from penstock.pipeline.jobs.code import made_once


def main(requirements: str, folder: str, *command: str) -> None:
    """Never returns."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-input"]

    def install(target: Path) -> None:
        done = subprocess.run(
            [*pip, "--requirement", requirements, "--target", str(target)], stdin=subprocess.DEVNULL, check=False
        )
        if done.returncode:
            raise SystemExit(done.returncode)

    made_once(Path(folder), install)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
