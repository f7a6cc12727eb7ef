"""`penstock worker`: run connectors (docs/connect.md)."""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click

from penstock.cli.terminal.failures import in_words
from penstock.cli.terminal.lines import begin_logging, say
from penstock.cli.terminal.options import argument, declared, option
from penstock.cli.terminal.session import parse_pairs, run
from penstock.node.assembly.properties import read_properties
from penstock.work.connect.config import ConfigError
from penstock.work.connect.distributed.topic_log import TopicError, create_all
from penstock.work.connect.plugins import PluginError
from penstock.work.connect.standalone.job_files import JobFileError, read_job
from penstock.work.connect.standalone.logs import FileLogError
from penstock.work.connect.standalone.worker import NotStartedError


@click.command("worker")
@declared
def command(
    standalone: bool = option("Run alone: offsets of sources are kept in a file."),
    create_topics: bool = option("Create the three topics that FILE names, and run nothing."),
    changes: tuple[str, ...] = option("Set a key of the worker; may be repeated.", "--set", metavar="KEY=VALUE"),
    file: Path = argument(),
    jobs: tuple[Path, ...] = argument(metavar="[JOB...]", nargs=-1),
) -> None:
    """Run connectors until Ctrl-C.

    FILE is Kafka's connect-distributed.properties: workers with the same group.id share connectors, which are created
    by `penstock connect` or over REST. With --standalone it is connect-standalone.properties, and each JOB is the
    configuration of a connector, as properties or JSON; others may be created as well, and are forgotten at the end.
    With --create-topics it makes the topics of a connect-distributed.properties, for workers that may not.
    """
    if standalone and create_topics:
        raise click.UsageError("--create-topics is about workers that share connectors: --standalone has no topics")
    if jobs and not standalone:
        raise click.UsageError("JOBs are for --standalone: use `penstock connect`")
    begin_logging(logging.WARNING)
    with in_words(JobFileError):
        config = {**read_properties(file), **parse_pairs(changes, "--set")}
        read = [read_job(job, read_properties) for job in jobs]
    if create_topics:
        run(_told(create_all(config, say)))
        return
    try:
        from penstock.work.connect.rest.running import run_distributed, run_standalone
    except ModuleNotFoundError as error:
        raise click.ClickException(f"{error}: pip install 'penstock[work]'") from None
    run(_told(run_standalone(config, read, say) if standalone else run_distributed(config, say)))


async def _told(work: Coroutine[Any, Any, None]) -> None:
    """Errors in the files and the topics are the user's to mend."""
    with in_words(ConfigError, PluginError, FileLogError, NotStartedError, TopicError):
        await work
