"""Settings of Spark that it does not know, though it knows one of nearly that name: Spark itself says nothing."""

from collections.abc import Iterator, Mapping

from pyspark.sql import SparkSession

from penstock.pipeline.options.values import nearest

ALIKE = 0.9
"""Parts of Spark that are not loaded yet have settings that it does not know either, of other names."""


def misspelt_settings(session: SparkSession, settings: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each; none where the session is elsewhere (Spark Connect) and cannot be asked."""
    known = _known(session) if settings else set()
    for key in settings:
        hint = "" if key in known else nearest(key, known, ALIKE)
        if hint:
            yield f"Spark has no setting {key}.{hint}"


def _known(session: SparkSession) -> set[str]:
    try:
        java = session._jvm
        entries = getattr(java.org.apache.spark.internal.config, "ConfigEntry$").__getattr__("MODULE$")  # type: ignore[union-attr]
        return set(java.java.lang.String.join("\n", entries.knownConfigs().keySet()).split("\n"))  # type: ignore[union-attr]
    except AttributeError:
        return set()
