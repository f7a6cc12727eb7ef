"""Settings of Spark that it does not know, though it knows one of nearly that name: Spark itself says nothing."""

from collections.abc import Iterator, Mapping

from pyspark.sql import SparkSession

from penstock.pipeline.jvm import known_settings
from penstock.pipeline.options.values import nearest

ALIKE = 0.9
"""Parts of Spark that are not loaded yet have settings that it does not know either, of other names."""


def misspelt_settings(session: SparkSession, settings: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each; none where the session is elsewhere (Spark Connect) and cannot be asked."""
    known = known_settings(session) if settings else set()
    for key in settings:
        hint = "" if key in known else nearest(key, known, ALIKE)
        if hint:
            yield f"Spark has no setting {key}.{hint}"
