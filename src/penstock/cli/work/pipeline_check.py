"""What is wrong with a pipeline's file by Spark's plan of it: for `check`, and before a job goes on with a new file."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from penstock.cli.work.pipeline_declared import check_declared, refuse
from penstock.pipeline.session import cache_directory, check_connect, spark_session
from penstock.pipeline.spec.declarative import is_declarative
from penstock.pipeline.spec.files import SessionSpec, load_spec, load_yaml, session_spec
from penstock.pipeline.spec.pipeline import PipelineSpec

STANDARD_INPUT: Final = Path("-")
Changed = Callable[[PipelineSpec], PipelineSpec]


def reading(
    file: Path, name: str | None, values: Mapping[str, str], given: Callable[[], str]
) -> tuple[SessionSpec, Callable[[], PipelineSpec]]:
    """What Spark must know of a pipeline, and how to read the rest; `given` is its standard input."""
    if file == STANDARD_INPUT:
        spec = load_yaml(given(), name or "pipeline", values=values)
        return SessionSpec(spec.name, spec.spark), lambda: spec
    return session_spec(file, values), lambda: load_spec(file, values)


def problems_in(
    file: Path,
    given: Mapping[str, str],
    values: Mapping[str, str],
    deployed_as: Changed | None = None,
    told: Callable[[PipelineSpec], None] = lambda spec: None,
    server: str | None = None,
) -> list[str]:
    """PipelineError for those that are told before Spark starts. Of one that is deployed also what keeps it from going
    on from its checkpoints. `told` gets the pipeline when it is read. With a `server` of Spark Connect that plans it.
    """
    if is_declarative(file):
        refuse(set=values, driver=server)
        check_declared(file, given)
        return []
    known, load = reading(file, None, values, sys.stdin.read)
    if file.suffix != ".py":
        load()  # what is wrong with YAML is said without Spark
    if server is not None:
        check_connect()
        from penstock.pipeline.running.check_at_server import problems_at

        return problems_at(server, {**known.spark, **given}, load, told)
    log_file = cache_directory() / "logs" / "check.log"
    session = spark_session(known.name, master="local[1]", config={**known.spark, **given}, log_file=log_file)
    from penstock.pipeline.running.check import problems_of, stored_problems

    try:
        spec = load()
        told(spec)
        found = problems_of(session, spec)
        return found if found or deployed_as is None else stored_problems(session, deployed_as(spec))
    finally:
        session.stop()
