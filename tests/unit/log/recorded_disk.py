"""A real disk that writes down what changes on it, in order."""

from pathlib import Path

from tests.unit.log.failing_disk import FailingDisk

CHANGES = ("write", "truncate", "sync", "make", "rename", "remove", "sync directory", "sync file system")


class RecordedDisk(FailingDisk):
    """`done` names each call that changes files, with paths below `root`; `take` gives it and begins anew."""

    __slots__ = ("done", "root")

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = f"{root}/"
        self.done: list[str] = []

    def take(self) -> list[str]:
        done, self.done = self.done, []
        return done

    def note(self, *words: str) -> None:
        self.done.append(" ".join(words).replace(self.root, ""))

    def ask(self, call: str, path: str) -> None:
        if call in CHANGES:
            self.note(call, path)
        super().ask(call, path)

    def replace_file(self, path: str, content: bytes, *, durable: bool) -> None:
        self.note("replace durably" if durable else "replace", path)
        done = self.take()
        super().replace_file(path, content, durable=durable)
        self.done = done  # without the sync that belongs to it

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)  # one of a file that is not there changes nothing
        self.done[-1] += f" as {target}".replace(self.root, "")

    def remove_some(self, path: str, at_most: int) -> int:
        self.note("remove all of", path)
        return super().remove_some(path, at_most)
