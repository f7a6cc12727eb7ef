"""The files of the page, from the package: read once, and nothing else can be asked for."""

from pathlib import Path
from typing import Final

from penstock.protocol.value import Value

FOLDER: Final = Path(__file__).parents[1] / "assets"
INDEX: Final = "index.html"
KINDS: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}


class Asset(Value):
    data: bytes
    kind: str


def read_assets() -> dict[str, Asset]:
    """By name."""
    return {
        path.name: Asset(path.read_bytes(), KINDS[path.suffix])
        for path in sorted(FOLDER.iterdir())
        if path.suffix in KINDS
    }
