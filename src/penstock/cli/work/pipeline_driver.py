"""`penstock pipeline driver`: runs pipelines side by side in one session of Spark, as its worker tells it.

A worker starts it (`pipeline/jobs/shared_driver.py`) and tells it what to run, in lines of JSON:

    {"begin": 7, "arguments": ["-", "--json", …], "given": "…"}    `penstock pipeline run`, in a thread
    {"stop": 7}                                                    let the batch under way end first
    {"interrupt": 7}                                               do not

What a run prints comes as {"run": 7, "line": "…"}, and its end as {"run": 7, "over": 0}. Nothing else is on the
standard output: what Java and other processes print there goes to the standard error.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, TextIO

import click

from penstock.cli.terminal.failures import in_words
from penstock.cli.terminal.options import declared, option
from penstock.cli.work.pipeline_place import Place
from penstock.cli.work.pipeline_values import CONF, pairs
from penstock.pipeline import ask_planners
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs import guardian
from penstock.pipeline.session import spark_session

NAME: Final = "penstock"


def begin_planners() -> None:
    """Before Java, which hands the place on to what it starts."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's threads must not be there before a fork
    place = os.environ[ask_planners.PLACE] = str(Path(tempfile.gettempdir()) / "planners")
    subprocess.Popen([sys.executable, "-m", "penstock.pipeline.datasource.warm_planners", place])


def own_output() -> TextIO:
    """What the worker reads, where others cannot print: that might say that a run is over."""
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return own


def command_of(run: click.Command) -> click.Command:
    """The command; `run` is what it runs."""

    @click.command(hidden=True)
    @declared
    def driver(master: str = option("where Spark runs", default="local[*]"), conf: tuple[str, ...] = CONF) -> None:
        """Run pipelines side by side, as the worker says that has started this."""
        number = os.environ.pop(guardian.CHANNEL, None)
        if number is None:
            raise click.ClickException("a worker starts this command (pipeline.driver=shared)")
        out = own_output()
        begin_planners()
        with in_words(PipelineError):
            session = spark_session(NAME, master=master, config=pairs("conf", conf))
        from penstock.cli.work.pipeline_runs import serve

        def run_in(place: Place, arguments: list[str]) -> None:
            run.main(arguments, prog_name="run", standalone_mode=False, obj=place)

        with socket.socket(fileno=int(number)) as channel:
            serve(session, channel, run_in, out)
        os._exit(1)  # nobody is there to be told how what runs ends

    return driver
