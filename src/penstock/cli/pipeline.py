"""`penstock pipeline`: run a pipeline on Spark, from a YAML or a Python file."""

import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from penstock.pipeline.spec import PipelineSpec


@click.group()
def command() -> None:
    """Run pipelines on Spark."""


@command.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--master", default="local[*]", show_default=True, help="where Spark runs")
@click.option("--bootstrap-server", help="host:port of the cluster, instead of what the file says")
@click.option("--checkpoint", help="where the pipeline remembers how far it came, instead of what the file says")
@click.option("--available-now", is_flag=True, help="stop when all that is there now has been processed")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="a setting of Spark")
def run(
    file: Path,
    master: str,
    bootstrap_server: str | None,
    checkpoint: str | None,
    available_now: bool,
    conf: tuple[str, ...],
) -> None:
    """Run the pipeline in FILE until it is done or Ctrl-C; the next run goes on from the checkpoint."""
    from penstock.pipeline.errors import PipelineError
    from penstock.pipeline.spec_files import load_spec

    try:
        spec = load_spec(file)
        spec = replace(spec, spark=dict(spec.spark) | dict(_key_and_value(item) for item in conf))
        if checkpoint is not None:
            spec = replace(spec, checkpoint=checkpoint)
        if available_now:
            spec = replace(spec, trigger="available-now")
        if bootstrap_server is not None:
            spec = spec.with_bootstrap_servers(bootstrap_server)
        _run(spec, master)
    except PipelineError as error:
        raise click.ClickException(str(error)) from None


def _key_and_value(item: str) -> tuple[str, str]:
    key, equals, value = item.partition("=")
    if not equals:
        raise click.BadParameter(f"{item} is not KEY=VALUE", param_hint="--conf")
    return key, value


def _run(spec: "PipelineSpec", master: str) -> None:
    from penstock.cli.pipeline_view import PipelineView
    from penstock.pipeline.errors import PipelineError
    from penstock.pipeline.session import cache_directory, spark_session

    log_file = cache_directory() / "logs" / f"{spec.name}.log"
    with PipelineView(spec, log_file) as view:
        session = spark_session(spec.name, master=master, config=spec.spark, log_file=log_file)
        from penstock.pipeline.run import run_pipeline

        stop = threading.Event()
        signal.signal(signal.SIGINT, lambda *_: stop.set())
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        view.running()
        try:
            result = run_pipeline(spec, view.batch_ended, session=session, stop=stop)
        except PipelineError:
            view.failed()
            raise
        finally:
            session.stop()
        view.ended(result)
