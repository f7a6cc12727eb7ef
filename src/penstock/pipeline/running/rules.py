"""What is expected of each row of a sink: rows that break a rule are counted, left out, or fail the query."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.running.views import planned
from penstock.pipeline.spec.pipeline import FAIL, WARN, RuleSpec, SinkSpec

COUNTS: Final = "penstock_rules"
"""The name of Spark's observation: a column for each rule."""
WHY: Final = "_penstock_broken"
SHOWN: Final = 500


def kept_rows(frame: DataFrame, sink: SinkSpec) -> DataFrame:
    """Each row is counted for each rule that it breaks, before any is left out."""
    if not sink.expect:
        return frame
    holds = {rule.name: _holds(frame, rule) for rule in sink.expect}
    frame = frame.observe(COUNTS, *(sf.count_if(~held).alias(name) for name, held in holds.items()))
    for rule in sorted(sink.expect, key=lambda rule: rule.on_fail != FAIL):
        if rule.on_fail == FAIL:
            frame = frame.where(
                sf.when(holds[rule.name], sf.lit(True)).otherwise(failure(sink, f"a row breaks the rule {rule.name}"))
            )
        elif rule.on_fail != WARN:
            frame = frame.where(holds[rule.name])
    return frame


def broken_rows(frame: DataFrame, sink: SinkSpec) -> DataFrame:
    """With why in a column."""
    names = (sf.when(~_holds(frame, rule), sf.lit(rule.name)) for rule in sink.expect)
    return frame.withColumn(WHY, sf.concat_ws("; ", *names)).where(sf.col(WHY) != "")


def _holds(frame: DataFrame, rule: RuleSpec) -> Column:
    planned(rule.condition, frame.where)
    return sf.coalesce(sf.expr(rule.condition.text), sf.lit(False))


def failure(sink: SinkSpec, why: str) -> Column:
    """For the columns of a row: our own sentence, which is found in whatever Spark makes of it."""
    said = f"{PipelineError.__module__}.{PipelineError.__name__}: Sink {sink.name}: {why}: "
    return sf.raise_error(sf.concat(sf.lit(said), sf.substring(sf.to_json(sf.struct("*")), 1, SHOWN)))
