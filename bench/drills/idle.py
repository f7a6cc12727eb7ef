"""A source with as many tasks as are wanted, none of which ever has anything: each notes its beginning and its end."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.work.connect.api import SourceConnector, SourceContext, SourceRecord, SourceTask


class IdleTask(SourceTask):
    """Notes go to a file of the process, in the directory `notes`."""

    def start(self, config: Mapping[str, str], context: SourceContext) -> None:
        self._notes = Path(config["notes"], str(os.getpid()))
        self._name = f"{config['name']}-{config['part']}"
        self._note("begun")

    async def poll(self) -> Sequence[SourceRecord]:
        await asyncio.sleep(1)
        return []

    def stop(self) -> None:
        self._note("ended")

    def _note(self, what: str) -> None:
        with self._notes.open("a") as file:
            file.write(f"{what} {self._name}\n")


class Idle(SourceConnector):
    task_class = IdleTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self.config, "part": str(part)} for part in range(max_tasks)]
