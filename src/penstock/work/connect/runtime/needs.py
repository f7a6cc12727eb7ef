"""What a task needs of its worker, `task.cores` and `task.memory`, and what a worker has."""

import os
import re
from collections.abc import Mapping
from typing import Final

from penstock.work.connect.config import ConfigKey
from penstock.work.plan import Task

SIZE: Final = re.compile(r"(\d{1,9})([mgt])", re.IGNORECASE)
MEGABYTES: Final = {"m": 1, "g": 1 << 10, "t": 1 << 20}


def megabytes(text: str) -> int:
    """ValueError for what is no size such as 512m or 2g."""
    found = SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text} is no size such as 512m or 2g")
    return int(found[1]) * MEGABYTES[found[2].lower()]


CORES: Final = ConfigKey(
    "task.cores",
    "int",
    documentation="How many cores each task needs: it runs on a worker that has so many left, or waits.",
    least=1,
)
MEMORY: Final = ConfigKey("task.memory", documentation="How much memory, such as 2g.", check=megabytes)
OF_A_WORKER: Final = (
    ConfigKey("worker.cores", "int", documentation="Cores for tasks with task.cores; as the machine has.", least=1),
    ConfigKey("worker.memory", documentation="Memory for tasks with task.memory; as the machine has.", check=megabytes),
)


def task_of(name: str, config: Mapping[str, str]) -> Task:
    """With what it needs, as far as that is understood."""
    cores, memory = config.get(CORES.name, ""), SIZE.fullmatch(config.get(MEMORY.name, "").strip())
    needs = int(cores) if cores.isdecimal() else 0
    return Task(name, cores=needs, memory_mb=megabytes(memory[0]) if memory else 0)


def machines_memory_mb() -> int | None:
    """None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    except (ValueError, OSError, AttributeError):
        return None
