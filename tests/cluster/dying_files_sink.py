"""A files sink that kills its own process: in each life at the next of `deaths`, until all of them are done."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.work.connect.api import SinkContext
from penstock.work.connect.built_in.files_sink import FilesSinkConnector, FilesSinkTask


class DyingTask(FilesSinkTask):
    def start(self, config: Mapping[str, str], context: SinkContext) -> None:
        super().start(config, context)
        self.notes = Path(config["notes"])
        deaths, done = config["deaths"].split(","), self.notes.read_text().splitlines()
        self.death = deaths[len(done)] if len(done) < len(deaths) else ""
        mv = self._store._fs.mv

        def move(*paths: Any) -> None:
            if self.death == "before the move":
                self.die()
            mv(*paths)
            if self.death == "after the move":
                self.die()

        self._store._fs.mv = move

    def flush(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Mapping[TopicPartition, OffsetAndMetadata]:
        safe = super().flush(offsets)
        if self.death == "before the commit" and any(to.offset for to in safe.values()):
            self.die()
        return safe

    def die(self) -> None:
        with self.notes.open("a") as file:
            file.write(f"{self.death}\n")
        os.kill(os.getpid(), signal.SIGKILL)


class Dying(FilesSinkConnector):
    task_class = DyingTask
