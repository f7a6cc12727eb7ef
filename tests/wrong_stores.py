"""Keys and stores for those who get security wrong, and for those who do not."""

from __future__ import annotations

from pathlib import Path

from tests.certificates import Authority

Settings = dict[str, str]


class Files:
    """Keys and stores, right and wrong ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.stranger = Authority(folder, "stranger")
        self.node = self.authority.signs("node")
        self.ada = self.authority.signs("ada")
        self.late = self.authority.signs("late", days=-1)
        self.early = self.authority.signs("early", begins=3)
        self.elsewhere = self.authority.signs("elsewhere", hosts=("broker.example", "10.1.2.3"))
        self.foreign = self.stranger.signs("ada", file="foreign")

    def holding(self, text: str) -> str:
        path = self.folder / f"{abs(hash(text))}.pem"
        path.write_text(text)
        return str(path)

    def of_tls(self, **changes: str) -> Settings:
        """A node with a listener of TLS."""
        right = {"listeners": "SSL://127.0.0.1:0", **self.authority.keys_of(self.node)}
        return right | {key.replace("_", "."): value for key, value in changes.items()}
