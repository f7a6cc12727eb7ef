"""`penstock pipeline`: run a pipeline on Spark, from a YAML or a Python file."""

import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from penstock.cli.pipeline_view import PipelineView
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.session import cache_directory, spark_session
from penstock.pipeline.spec import AVAILABLE_NOW, PipelineSpec
from penstock.pipeline.spec_files import load_spec, session_spec


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
    try:
        start = session_spec(file)
        settings = dict(start.spark) | dict(_key_and_value(item) for item in conf)

        def spec() -> PipelineSpec:
            loaded = load_spec(file)
            if checkpoint is not None:
                loaded = loaded.replace(checkpoint=checkpoint)
            if available_now:
                loaded = loaded.replace(trigger=AVAILABLE_NOW)
            return loaded if bootstrap_server is None else loaded.with_bootstrap_servers(bootstrap_server)

        _run(start.name, master, settings, spec)
    except PipelineError as error:
        raise click.ClickException(str(error)) from None


def _key_and_value(item: str) -> tuple[str, str]:
    key, equals, value = item.partition("=")
    if not equals:
        raise click.BadParameter(f"{item} is not KEY=VALUE", param_hint="--conf")
    return key, value


def _run(name: str, master: str, settings: Mapping[str, str], spec: Callable[[], PipelineSpec]) -> None:
    """Start Spark, then read the pipeline (Python code may need Spark), then run it."""
    log_file = cache_directory() / "logs" / f"{name}.log"
    with PipelineView(name, log_file) as view:
        session = spark_session(name, master=master, config=settings, log_file=log_file)
        from penstock.pipeline.run import keep_in_log, run_pipeline

        stop = threading.Event()
        signal.signal(signal.SIGINT, lambda *_: stop.set())
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        try:
            loaded = spec()
            view.running()
            result = run_pipeline(loaded, view.batch_ended, session=session, stop=stop)
        except PipelineError as error:
            keep_in_log(error, log_file)
            view.failed()
            raise
        finally:
            session.stop()
        view.ended(result)
