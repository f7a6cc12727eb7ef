"""`penstock storage-groups recover`: a group that has lost its log at a majority of its voters goes on from another."""

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import SystemRandom

import click

from penstock.cli.terminal.failures import in_words
from penstock.cli.terminal.lines import confirm, say
from penstock.cli.terminal.names import parse_numbers
from penstock.cli.terminal.options import declared, option
from penstock.log.directories.directory import LogDirectories
from penstock.log.directories.errors import LogDirectoryError
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.pairs import PropertiesError
from penstock.node.assembly.properties import load_config
from penstock.node.partitions.topic_settings import TopicSettingsTable
from penstock.node.storage_groups.recovery import Remains, Report
from penstock.protocol.errors import DecodeError, KafkaError


@click.command("recover")
@declared
def recover(
    file: Path = option("The configuration of this node, which is stopped.", "-c", "--config", required=True),
    group: int = option("The storage group.", "--group", required=True, min=0),
    report: Path | None = option("Write down here what this node has of it, and change nothing.", exists=False),
    others: tuple[Path, ...] = option("The report of another replica, for each.", "--other"),
    gone: str | None = option("Replicas whose disks are lost, with all that was on them.", metavar="2,3"),
    yes: bool = option("Do not ask."),
) -> None:
    """Let a storage group go on from this node, where a majority of its voters has lost the group's log.

    All nodes with a replica of the group are stopped. Each of the others writes a report first; then the replica that
    has the log becomes the only voter, after it was seen that it has all that any other has of the group's partitions.
    When all nodes are started the others copy from it what they lack, and get their votes back.
    """
    with in_words(ConfigError, PropertiesError):
        config = load_config(file, environment=os.environ).config
    with in_words(LogDirectoryError, KafkaError, DecodeError, OSError, ValueError), _opened(config) as directories:
        remains = Remains(directories, config.node_id, group)
        if report is not None:
            _write(report, remains.report())
            return
        reports = [_read(path) for path in others]
        reasons = list(remains.why_not(reports, [] if gone is None else parse_numbers(gone, "--gone")))
        if reasons:
            raise click.ClickException("nothing was changed:\n" + "\n".join(f"- {reason}" for reason in reasons))
        _say_what_it_means(remains, config.node_id, group)
        if not yes:
            confirm("Go on from this replica?")
        epoch = directories.roots.clean_broker_epoch
        directories.begin()
        remains.go_on_alone(time.time_ns() // 1_000_000)
        directories.close(broker_epoch=epoch)
    say(f"node {config.node_id} votes alone in storage group {group}: start all of its nodes")


@contextmanager
def _opened(config: BrokerConfig) -> Iterator[LogDirectories]:
    """What is not closed is left as it was."""
    directories = LogDirectories(
        config.log_dirs,
        metadata_path=config.metadata_dir,
        node_id=config.node_id,
        random=SystemRandom(),
        recovery_threads=config.num_recovery_threads_per_data_dir,
    )
    try:
        settings = TopicSettingsTable(config)
        directories.open_all(lambda _: settings.settings({}).log)
        yield directories
    finally:
        directories.give_back()


def _write(path: Path, report: Report) -> None:
    path.write_text(json.dumps(report.as_json()))
    log = "has its log" if report.last is not None else "does not have its log"
    say(f"node {report.node_id} {log}, and {len(report.partitions)} logs of partitions: written to {path}")


def _read(path: Path) -> Report:
    try:
        return Report.from_json(json.loads(path.read_text()))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: no report of a replica ({error})") from error


def _say_what_it_means(remains: Remains, node_id: int, group: int) -> None:
    assert remains.last is not None, "why_not() says that there is none"
    epoch, end_offset = remains.last
    lost: Sequence[int] = [voter for voter in remains.quorum.ids if voter != node_id]
    say(f"Storage group {group} goes on from node {node_id}, whose log of it ends at {end_offset} in epoch {epoch}.")
    say(f"What the voters {lost} acknowledged without node {node_id}, and no log of a partition has, is lost.")
    say("None of them may ever start again with an earlier copy of the group's log: it would vote as before.")
