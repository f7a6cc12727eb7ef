"""`penstock pipeline run` and `check` of a `spark-pipeline.yml`, which Spark's own runner runs."""

from collections.abc import Mapping
from pathlib import Path

import click

from penstock.cli.terminal.lines import say
from penstock.cli.work.pipeline_view import JsonView
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.session import cache_directory
from penstock.pipeline.spec.declarative import declarative_spec


def run_declared(file: Path, master: str, settings: Mapping[str, str], *, as_json: bool) -> None:
    """Once, until all that is there is done; PipelineError."""
    spec = declarative_spec(file)
    log_file = None if as_json else cache_directory() / "logs" / f"{spec.name}.log"
    from penstock.pipeline.running.spark_pipelines import run_declarative

    if not as_json:
        run_declarative(file, dry=False, master=master, settings=settings, log_file=log_file)
        say(f"{spec.name}: done")
        return
    with JsonView() as view:
        view.running()
        try:
            run_declarative(file, dry=False, master=master, settings=settings)
        except PipelineError as error:
            view.failed(str(error))
            raise
        view.filled({spec.name: spec.storage})


def check_declared(file: Path, settings: Mapping[str, str]) -> None:
    """By Spark's dry run; PipelineError."""
    declarative_spec(file)
    log_file = cache_directory() / "logs" / "check.log"
    from penstock.pipeline.running.spark_pipelines import run_declarative

    run_declarative(file, dry=True, master="local[1]", settings=settings, log_file=log_file)


def refuse(**options: object) -> None:
    """Options of `run` that say what is in a file of ours."""
    given = [name for name, value in options.items() if value]
    if given:
        raise click.UsageError(f"--{given[0].replace('_', '-')} is not for a pipeline that Spark runs")
