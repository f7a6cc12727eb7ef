"""Which files a query has written for good, for readers other than Spark.

A query that was killed may leave files of a batch that is written again. Spark's own log beside them says which count
(`_spark_metadata`): Spark looks there, pandas and others do not.
"""

import json
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

BATCH_FILE = re.compile(r"\d+(\.compact)?")
OUTPUT_LOG = "_spark_metadata"


def committed_files(directory: str | Path) -> list[Path]:
    """The files of all batches that are complete; none where no query has written."""
    log = Path(directory) / OUTPUT_LOG
    batches = [file for file in log.iterdir() if BATCH_FILE.fullmatch(file.name)] if log.is_dir() else []
    found: dict[Path, None] = {}
    for batch in sorted(batches, key=lambda file: int(file.name.partition(".")[0])):
        _version, *lines = batch.read_text(encoding="utf-8").splitlines()
        for entry in map(json.loads, lines):
            found[Path(unquote(urlsplit(entry["path"]).path))] = None
    return list(found)
