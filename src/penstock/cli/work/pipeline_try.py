"""`penstock pipeline try`: what a new version of a pipeline makes otherwise of what came since a time."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.terminal.failures import in_words
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import JSON, argument, declared, option
from penstock.cli.terminal.output import Value as Cell
from penstock.cli.terminal.output import print_json, print_table
from penstock.cli.terminal.times import parse_datetime_ms
from penstock.cli.work.connect_client import ConnectClient, WorkerAt, check_class
from penstock.cli.work.pipeline_jobs import CLASS
from penstock.cli.work.pipeline_values import CONF, SET, pairs
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs.code import MODULES, unpacked
from penstock.pipeline.jobs.commands import code_root, file_of
from penstock.pipeline.jobs.keys import VALUES
from penstock.pipeline.options.values import time_in_ms
from penstock.pipeline.session import cache_directory, spark_session
from penstock.pipeline.spec.files import load_spec, load_yaml, session_spec
from penstock.pipeline.spec.pipeline import PipelineSpec
from penstock.protocol.value import Value
from penstock.work.connect.config import with_prefix

if TYPE_CHECKING:
    from penstock.pipeline.running.trial import SinkTrial, Trial

Load = Callable[[], PipelineSpec]


class Since(Value):
    """From where on records are tried; `ms` where that is a time."""

    starting: Mapping[str, str]
    ms: int | None = None


@click.command("try", short_help="what a new version of a pipeline makes otherwise of what came before")
@declared
def command(
    at: WorkerAt,
    file: Path = argument(),
    against: Path | None = option("the file of the version before", metavar="FILE"),
    job: str | None = option("instead of --against: the job of workers that runs the version before", metavar="NAME"),
    since: str = option(
        "how long ago (90s, 2h, 1d), a time (2026-01-31T12:00:00, in UTC), earliest, or offsets as in startingOffsets",
        default="1h",
        show_default=True,
    ),
    sinks: tuple[str, ...] = option("only this sink; may be repeated", "--sink", metavar="NAME"),
    rows: int = option("so many rows that differ are shown of each sink", default=10, type=click.IntRange(0)),
    bootstrap_server: str | None = option("host:port of the cluster, instead of what the files say"),
    master: str = option("where Spark runs, on this machine", default="local[*]", show_default=True),
    conf: tuple[str, ...] = CONF,
    values: tuple[str, ...] = SET,
    as_json: bool = JSON,
) -> None:
    """Run the pipeline in FILE and the version before it over the same records, and show what they make of them
    differently: rows of each sink, its columns, how long each took. The exit code is 1 if anything differs.

    Nothing is written to sinks, and no checkpoint is touched. All records are one batch, without state of before: what
    only a stream has, such as watermarks, is told where it differs but not tried.
    """
    if (against is None) == (job is None):
        raise click.UsageError("say what FILE is compared with: --against FILE, or --job NAME for what workers run")
    begin = _since(since)
    given = pairs("set", values)
    with in_words(PipelineError):
        old = _of_job(at.client, str(job)) if against is None else partial(load_spec, against, given)
        known = session_spec(file, given)

        def placed(spec: PipelineSpec) -> PipelineSpec:
            chosen = spec.replace(chosen=tuple(name for name in sinks if name in {sink.name for sink in spec.sinks}))
            return chosen if bootstrap_server is None else chosen.with_bootstrap_servers(bootstrap_server)

        log_file = cache_directory() / "logs" / f"{known.name}-try.log"
        session = spark_session(
            known.name, master=master, config={**known.spark, **pairs("conf", conf)}, log_file=log_file
        )
        from penstock.pipeline.running.run import in_a_sentence, keep_in_log
        from penstock.pipeline.running.trial import try_pipeline

        try:
            with in_a_sentence(file):
                before, after = old(), load_spec(file, given).only(sinks)
            with _progress(before, after) as told:
                found = try_pipeline(
                    placed(before), placed(after), begin.starting, session=session, samples=rows, told=told
                )
        except PipelineError as error:
            keep_in_log(error, log_file)
            raise
        finally:
            session.stop()
    if as_json:
        print_json(_as_json(found))
    else:
        _show(found, begin)
    if not found.is_same:
        raise SystemExit(1)


def _since(text: str) -> Since:
    if text == "earliest" or text.startswith("{"):
        return Since({"startingOffsets": text})
    try:
        is_ago = text[:1].isdigit() and text[-1:].isalpha()
        ms = round(time.time() * 1000) - time_in_ms("--since", text) if is_ago else parse_datetime_ms(text)
    except (PipelineError, ValueError):
        ways = "write how long ago (90s, 2h, 1d), a time (2026-01-31T12:00:00), earliest, or offsets"
        raise click.BadParameter(f"{text!r} says no beginning: {ways}", param_hint="--since") from None
    return Since({"startingTimestamp": str(ms)}, ms)


def _of_job(client: ConnectClient, name: str) -> Load:
    """How to read what a job runs: its YAML is with the workers, and so may be the modules of Python."""
    check_class(client, name, CLASS, "pipeline", "describe")
    config = client.ask("GET", "connectors", name, "config")
    values, servers = with_prefix(config, VALUES), config.get("bootstrap.servers")
    if code := config.get("pipeline.code"):
        sys.path.insert(0, str(unpacked(code, code_root()) / MODULES))

    def load() -> PipelineSpec:
        text = config.get("pipeline")
        spec = load_yaml(text, name, values=values) if text else load_spec(file_of(config), values)
        return spec.with_bootstrap_servers(servers) if servers else spec

    return load


@contextmanager
def _progress(*specs: PipelineSpec) -> Iterator[Callable[[str, str], None]]:
    steps = sum(len(spec.running) for spec in specs)
    with click.progressbar(length=steps, label="sinks", file=sys.stderr, item_show_func=str) as bar:
        yield lambda sink, which: bar.update(1, f"{sink}, {which}")


def _show(found: "Trial", since: Since) -> None:
    for name, records in found.records.items():
        say(f"source {name}: {records} records{_pace(records, since)}")
    say("")
    columns = ("sink", "rows before", "rows now", "gone", "come", "s before", "s now")
    print_table(columns, [_cells(one) for one in found.sinks], empty="there are no sinks")
    for one in found.sinks:
        lines = [*_alone(one), *one.columns, *one.samples]
        if lines:
            say("", f"sink {one.sink}:", *(f"  {line}" for line in lines))
    if found.untried:
        say("", "not tried, as a batch shows nothing of it:", *(f"  {line}" for line in found.untried))
    say("", "nothing differs" if found.is_same else "the two differ")


def _pace(records: int, since: Since) -> str:
    if since.ms is None:
        return ""
    seconds = max(time.time() - since.ms / 1000, 1)
    return f", {records / seconds:.1f} a second"


def _cells(one: "SinkTrial") -> list[Cell]:
    times = [None if seconds is None else round(seconds, 1) for seconds in (one.old_s, one.new_s)]
    return [one.sink, one.old_rows, one.new_rows, one.gone, one.come, *times]


def _alone(one: "SinkTrial") -> list[str]:
    if one.old_rows is None:
        return ["it is new"]
    return ["it is gone"] if one.new_rows is None else []


def _as_json(found: "Trial") -> dict[str, object]:
    return {
        "same": found.is_same,
        "records": dict(found.records),
        "sinks": [
            {
                "sink": one.sink,
                "rows": {"old": one.old_rows, "new": one.new_rows},
                "gone": one.gone,
                "come": one.come,
                "samples": list(one.samples),
                "columns": list(one.columns),
                "seconds": {"old": one.old_s, "new": one.new_s},
            }
            for one in found.sinks
        ],
        "untried": list(found.untried),
    }
