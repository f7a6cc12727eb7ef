"""Which pages there are, by what people want: each page of docs/ once; decisions have an index of their own."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
CONTENTS: Final = {
    "Learn": [
        "README.md", "docs/tutorials/first-topic.md", "docs/tutorials/from-kafka.md", "docs/tutorials/flights.md",
        "docs/tutorials/break-a-cluster.md", "docs/tutorials/exactly-once.md", "docs/tutorials/delayed-orders.md",
        "docs/counting-once.md",
        "docs/background.md",
    ],
    "Do": [
        "docs/running.md", "docs/clusters.md", "docs/leadership.md", "docs/disks.md", "docs/recovery.md",
        "docs/metrics.md", "docs/console.md", "docs/security.md", "docs/migration.md", "docs/quotas.md",
        "docs/policies.md", "docs/rebalances.md", "docs/streams.md", "docs/delayed.md", "docs/share-groups.md",
        "docs/testing.md",
        "docs/client.md", "docs/transactions.md", "docs/work.md", "docs/connect.md", "docs/spark.md",
        "docs/pipelines.md",
    ],
    "Look up": [
        "docs/cli.md", "docs/scripts.md", "docs/configuration.md", "docs/protocol.md", "docs/compatibility.md",
        "CHANGELOG.md",
    ],
    "Understand": [
        "docs/architecture.md", "docs/decisions/README.md", "docs/lessons.md", "docs/performance.md",
        "docs/hand-in-hand.md", "docs/raft.md", "docs/raft-kv.md", "docs/simulation.md", "docs/mutants.md",
        "CONTRIBUTING.md",
    ],
}  # fmt: skip


def pages() -> list[Path]:
    """All, those of the contents first."""
    listed = [ROOT / name for names in CONTENTS.values() for name in names]
    return listed + sorted(page for page in (ROOT / "docs" / "decisions").glob("[0-9]*.md"))


def address(page: Path) -> str:
    """Where a page is in the site: `docs/spark.md` is `spark.html`."""
    name = page.relative_to(ROOT).as_posix().removeprefix("docs/").removesuffix(".md")
    folder, _, last = name.rpartition("/")
    last = "index" if last == "README" else last.lower()
    return f"{folder}/{last}.html" if folder else f"{last}.html"
