"""`penstock pipeline`: run a pipeline on Spark, from a YAML or a Python file; here, or as a job on workers."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from penstock.cli.terminal.failures import in_words, wrong_usage
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import argument, declared, option
from penstock.cli.terminal.times import parse_datetime_ms
from penstock.cli.work import pipeline_driver, pipeline_jobs, pipeline_stored, pipeline_try
from penstock.cli.work.pipeline_check import problems_in, reading
from penstock.cli.work.pipeline_declared import refuse, run_declared
from penstock.cli.work.pipeline_place import Place
from penstock.cli.work.pipeline_values import CONF, SET, pairs
from penstock.cli.work.pipeline_view import JsonView, PipelineView
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs.keys import AT_SERVER
from penstock.pipeline.server_address import server_address
from penstock.pipeline.session import cache_directory, check_connect
from penstock.pipeline.spec.declarative import is_declarative
from penstock.pipeline.spec.pipeline import AVAILABLE_NOW, PipelineSpec
from penstock.pipeline.spec.promises import missed_at_server, promises_of

View = PipelineView | JsonView


@click.group()
def command() -> None:
    """Run pipelines on Spark: here (run), or as jobs on workers (submit)."""


for one in (*pipeline_jobs.COMMANDS, *pipeline_stored.COMMANDS, pipeline_try.command):
    command.add_command(one)


@command.command()
@declared
def run(
    file: Path = argument(exists=False),
    master: str = option("where Spark runs", default="local[*]", show_default=True),
    bootstrap_server: str | None = option("host:port of the cluster, instead of what the file says"),
    checkpoint: str | None = option("where the pipeline remembers how far it came, instead of what the file says"),
    available_now: bool = option("stop when all that is there now has been processed"),
    conf: tuple[str, ...] = CONF,
    values: tuple[str, ...] = SET,
    sinks: tuple[str, ...] = option("only this sink; may be repeated", "--sink", metavar="NAME"),
    name: str | None = option("with -, its name if it says none itself"),
    start: str | None = option(
        "once more what came from then on, as a batch, without checkpoints", "--from", metavar="TIME"
    ),
    end: str | None = option("with --from: only what came before", "--to", metavar="TIME"),
    deployed: str | None = option(
        "take the latest schemas of a registry anew if those of the checkpoint were taken before", metavar="TIME"
    ),
    keep_going: bool = option("a sink that fails is begun again while others go on, and does not end them"),
    as_json: bool = option("print each batch as a line of JSON", "--json"),
) -> None:
    """Run the pipeline in FILE until it is done or Ctrl-C; the next run goes on from the checkpoint. The batch that is
    under way ends first; a second Ctrl-C interrupts it, and the next run repeats it.

    FILE is YAML or Python; - is YAML on the standard input. With --from it is run as a batch over what came in that
    time (2026-01-31T12:00:00, in UTC): a topic gets it once more, a sink of files a directory of its own beside the
    other, PATH.backfill/FROM_TO. A spark-pipeline.yml is run by Spark, once.
    """
    times, place = _times(start, end), click.get_current_context().find_object(Place) or place_of_process()
    if is_declarative(file):
        options = {"sink": sinks, "bootstrap_server": bootstrap_server, "checkpoint": checkpoint, "from": start}
        refuse(**options, name=name, keep_going=keep_going, set=values)
        with in_words(PipelineError):
            run_declared(file, master, pairs("conf", conf), as_json=as_json)
        return
    with wrong_usage(ValueError):
        deployed_ms = -1 if deployed is None else parse_datetime_ms(deployed)
    with in_words(PipelineError):
        known, load = reading(file, name, pairs("set", values), place.given)
        settings = dict(known.spark) | pairs("conf", conf)

        def spec() -> PipelineSpec:
            loaded = load().only(sinks)
            if checkpoint is not None:
                loaded = loaded.replace(checkpoint=checkpoint)
            if available_now:
                loaded = loaded.replace(trigger=AVAILABLE_NOW)
            return loaded if bootstrap_server is None else loaded.with_bootstrap_servers(bootstrap_server)

        log_file = None if as_json else cache_directory() / "logs" / f"{known.name}.log"
        view = JsonView() if log_file is None else PipelineView(known.name, log_file)
        _run(
            known.name,
            master,
            settings,
            spec,
            view,
            log_file,
            times,
            deployed_ms,
            keep_going=keep_going,
            place=place,
        )


@command.command()
@declared
def check(
    file: Path = argument(exists=False),
    conf: tuple[str, ...] = CONF,
    values: tuple[str, ...] = SET,
    driver: str | None = option(
        "plan it at that server of Spark Connect, sc://host:port, and say what is different there"
    ),
) -> None:
    """Name all that is wrong with the pipeline in FILE; the exit code is 1 if anything is.

    It is parsed and planned, and nothing is read or written: no cluster is asked, no topic looked for. Of a good one it
    is said what each sink promises about batches that run again.
    """
    promises: list[str] = []

    def told(spec: PipelineSpec) -> None:
        promises.extend(promises_of(spec))
        promises.extend(() if driver is None else missed_at_server(spec))

    try:
        with wrong_usage(ValueError):
            if driver is not None:
                server_address(driver)
        problems = problems_in(file, pairs("conf", conf), pairs("set", values), told=told, server=driver)
    except PipelineError as error:
        problems = str(error).splitlines()
    for problem in problems:
        say(problem)
    if problems:
        raise SystemExit(1)
    say(f"{file} is good")
    for promise in promises:
        say(promise)


def place_of_process() -> Place:
    """A worker says where that is, where it is not here."""
    said = os.environ.pop(AT_SERVER, None)
    if said is None:
        return Place()
    with in_words(PipelineError):
        check_connect()
    from penstock.cli.work.pipeline_at_server import ServerPlace

    return ServerPlace(said)


def _times(start: str | None, end: str | None) -> tuple[int, int | None] | None:
    if start is None:
        if end is not None:
            raise click.UsageError("--to goes with --from")
        return None
    with wrong_usage(ValueError):
        return parse_datetime_ms(start), None if end is None else parse_datetime_ms(end)


def _run(
    name: str,
    master: str,
    settings: Mapping[str, str],
    spec: Callable[[], PipelineSpec],
    view: View,
    log_file: Path | None,
    times: tuple[int, int | None] | None,
    deployed_ms: int,
    *,
    keep_going: bool,
    place: Place,
) -> None:
    """Start Spark first: Python code may need it to say the pipeline."""
    with view:
        with place.session(name, master, settings, log_file) as session:
            from penstock.pipeline.jvm import page_of
            from penstock.pipeline.running.backfill import run_backfill
            from penstock.pipeline.running.run import keep_in_log, run_pipeline

            try:
                stop, loaded = place.stop(), spec()
                view.running(page_of(session))
                if times is not None:
                    view.filled(run_backfill(loaded, *times, session=session))
                    return
                result = run_pipeline(
                    loaded,
                    view.batch_ended,
                    view.failing if keep_going else None,
                    session=session,
                    stop=stop,
                    deployed_ms=deployed_ms,
                    beside=place.beside,
                )
            except PipelineError as error:
                keep_in_log(error, log_file)
                why = place.explained(error)
                view.failed(why)
                raise PipelineError(why) from error
        view.ended(result)


command.add_command(pipeline_driver.command_of(run))
