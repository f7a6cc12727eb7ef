"""Runs a script in Pythons whose sets of strings have different orders: nothing of a simulation may depend on them."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def told_in_every_python(script: str) -> bytes:
    """What the script prints, which has to be the same each time."""
    told = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        command = [sys.executable, "-c", script]
        told.append(subprocess.run(command, env=environment, check=True, capture_output=True, cwd=ROOT).stdout)
    assert told[0] == told[1]
    return told[0]
