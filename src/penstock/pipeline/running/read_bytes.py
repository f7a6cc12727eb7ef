"""How many bytes a query reads of each of its sources: Spark counts them as rows pass, and tells with each batch."""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sf

OBSERVED: Final = "penstock_bytes_of_"
"""Before the name of a source: Spark's name of what is observed."""
BYTES: Final = "bytes"


def with_bytes_counted(frame: DataFrame, source: str) -> DataFrame:
    """Of keys and values, as they are in the topic when they are unpacked."""
    size = sf.coalesce(sf.octet_length("key"), sf.lit(0)) + sf.coalesce(sf.octet_length("value"), sf.lit(0))
    return frame.observe(f"{OBSERVED}{source}", sf.sum(size).alias(BYTES))


def bytes_read(observed: Mapping[str, Row]) -> dict[str, int]:
    """By sources; without those that had no rows."""
    found = {name: row[BYTES] for name, row in observed.items() if name.startswith(OBSERVED)}
    return {name.removeprefix(OBSERVED): size for name, size in found.items() if size}
