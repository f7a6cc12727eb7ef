"""Runs a declarative pipeline by Spark's own runner, once: its graph, views, AUTO CDC and dry run are all Spark's.

Spark does that through Spark Connect, whose server is started in this process unless `master` says where one is.
"""

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from pyspark import __version__
from pyspark.errors import PySparkException

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.session import REMOTE, prepare_connect
from penstock.pipeline.spec.user_code import first_line, plain_message

ACCUMULATOR: Final = "__python_accumulator__"


def run_declarative(
    spec: Path, *, dry: bool, master: str, settings: Mapping[str, str], log_file: Path | None = None
) -> None:
    """Until all that is there now is done; a dry run checks the graph. PipelineError."""
    if find_spec("pyspark.pipelines") is None:
        raise PipelineError(f"{spec}: declarative pipelines need Spark 4.1 or newer, and this is {__version__}.")
    if not master.startswith(("local", REMOTE)):
        raise PipelineError(f"{spec}: a declarative pipeline runs at local[…] or sc://host:port, not at {master}.")
    prepare_connect(master, settings, log_file)
    try:
        cli: Any = import_module("pyspark.pipelines.cli")
    except ImportError as error:
        raise PipelineError(
            f"{spec}: declarative pipelines need more ({error}); install it: pip install 'pyspark[pipelines]'"
        ) from error
    told = cli.handle_pipeline_events
    # Spark 4.3.0 takes what a Python source reports for an error, after all is done (SPARK-59135).
    cli.handle_pipeline_events = lambda results: told(_events(results))
    try:
        cli.run(spec_path=spec, full_refresh=[], full_refresh_all=False, refresh=[], dry=dry)
    except PySparkException as error:
        raise PipelineError(f"{spec}: {plain_message(error)}") from error
    except Exception as error:  # of the pipeline's own files, which Spark imports
        raise PipelineError(f"{spec}: {type(error).__name__}: {first_line(str(error))}") from error
    finally:
        cli.handle_pipeline_events = told


def _events(results: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return (result for result in results if ACCUMULATOR not in result)
