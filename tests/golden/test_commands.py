"""The transcript of commands: what each asks of a cluster, and what it prints of the answers.

The fake broker of the admin client's transcript answers. A word that is an object of JSON, begins as a file of access
rules does or as a line of the audit log, or with `file: `, goes to the command as a file.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import click
from click.testing import CliRunner
from tests.golden.printed import printed
from tests.golden.shown import said
from tests.golden.test_admin import Sampling
from tests.unit.client.admin.test_refusals import OF_THE_CLUSTER
from tests.unit.client.fake_broker import Reply
from tests.unit.client.fake_cluster import FakeCluster, served_in_a_thread

from penstock.cli.main import main
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.protocol.messages.describe_cluster import DescribeClusterResponse
from penstock.protocol.messages.describe_groups import DescribeGroupsRequest
from penstock.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from penstock.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from penstock.protocol.requests.framing import RequestHeader
from penstock.protocol.schema import Message

CLI_PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
TEXT = "file: "
FILES = {"{": "json", "[[rule]]": "toml", "Principal = ": "log", TEXT: "txt"}
"""By the beginning of a word, what kind of file it is; semicolons end the lines of those that are not JSON."""

RECORDS = "the fake broker has no records: tests/wire"
SPARK = "it runs a pipeline: tests/spark"
TIME = "it tells how long something has lasted: tests/wire/test_cli_transactions.py"
APIS = "it prints what may change with each API: tests/unit/cli/cluster/test_api_versions.py"
ELSEWHERE = {
    **dict.fromkeys(("consume", "consumer-perf-test", "e2e-latency", "produce", "producer-perf-test"), RECORDS),
    **dict.fromkeys(("verifiable-consumer", "verifiable-producer", "replica-verification"), RECORDS),
    **dict.fromkeys(("share-consumer-perf-test", "verifiable-share-consumer"), RECORDS),
    **dict.fromkeys(("pipeline reset", "pipeline run", "pipeline submit", "pipeline try", "demo two-level"), SPARK),
    **dict.fromkeys(("transactions describe", "transactions find-hanging"), TIME),
    **dict.fromkeys(("broker-api-versions", "cluster api-versions"), APIS),
    "balance execute": "it follows moves to their end: tests/wire/test_cli_balance.py",
    "console": "it serves pages: tests/unit/console",
    "metadata-quorum add-controller": "it looks into the controller's directory: tests/wire/test_cli_quorum.py",
    "metadata-shell": "it has commands of its own: shell.txt",
}
"""Commands that are not in the transcript, and why."""


CLOCK = "what it prints goes by the clock"
NO_STEP = {
    "balance plan --file": "it writes a file: tests/unit/cli/replicas/test_balance.py",
    "balance relieve --file": "it writes a file: tests/unit/cli/replicas/test_balance.py",
    "client-metrics --generate-name": "the name is drawn",
    "leaders balance --json": "it asks until all is moved: tests/wire/test_cli_leaders.py",
    "leaders plan --measure": CLOCK,
    "metadata-quorum describe --human-readable": CLOCK,
    "transactions list --prepared": CLOCK,
}
"""Options that no step of the transcript gives, and why."""
EVERYWHERE = {"--bootstrap-server", "--bootstrap-controller", "--command-config"}


KINDS: dict[type[Message], str] = {
    DescribeGroupsRequest: "classic",
    ConsumerGroupDescribeRequest: "consumer",
    ShareGroupDescribeRequest: "share",
    StreamsGroupDescribeRequest: "streams",
}
"""Groups with these names are of this kind, and of no other; any other is of the first that is asked for."""


class Reached(Sampling):
    """Its brokers are where it is."""

    def __call__(self, header: RequestHeader, request: Message) -> Reply:
        answer = super().__call__(header, request)
        if isinstance(answer, DescribeClusterResponse) and self.broker is not None:
            for broker in answer.brokers:
                broker.host, broker.port = self.broker.address
        if type(request) in KINDS:
            asked, told = vars_of(request), vars_of(answer)
            for name, row in zip(asked.get("groups") or asked.get("group_ids") or [], told["groups"], strict=True):
                if name in KINDS.values() and name != KINDS[type(request)]:
                    row.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        return answer


def vars_of(message: Reply) -> dict[str, Any]:
    return {name: getattr(message, name) for name in type(message).__fields__}  # type: ignore[union-attr]


class CommandLecture:
    def __init__(self, path: Path) -> None:
        self._path = path

    def handle(self, line: str) -> Iterable[str]:
        with served_in_a_thread(cast("FakeCluster", Reached())) as broker:
            words = [self._word(number, word) for number, word in enumerate(shlex.split(line))]
            address = str(broker.address)
            result = CliRunner().invoke(main, [*words, "--bootstrap-server", address])
            output = "\n".join(printed(result)).replace(address, "ADDRESS").replace(str(self._path), "PATH")
            output = output.replace(str(broker.address.port), "PORT")
            yield from (said(it) for header, it in broker.requests if header.api_key not in OF_THE_CLUSTER)
        yield from output.splitlines()
        if result.exit_code:
            yield f"exit {result.exit_code}"

    def _word(self, number: int, word: str) -> str:
        kind = next((name for begin, name in FILES.items() if word.startswith(begin)), None)
        if kind is None:
            return word
        path = self._path / f"{number}.{kind}"
        path.write_text(word.removeprefix(TEXT).replace("; ", "\n"))
        return str(path)


def test_commands(tmp_path: Path, transcript: Callable[[str, Callable[[str], Iterable[object]]], None]) -> None:
    transcript("commands.txt", CommandLecture(tmp_path).handle)


def test_every_command_that_asks_a_cluster_is_told_of() -> None:
    told = (Path(__file__).parent / "commands.txt").read_text().splitlines()
    _, *sections = CLI_PAGE.read_text().split("\n## `penstock ")
    asking = {section.partition("`")[0] for section in sections if "`--bootstrap-server" in section}
    assert {name for name in asking if not any(f"{line} ".startswith(f"{name} ") for line in told)} == ELSEWHERE.keys()


def test_every_option_of_these_commands_is_given() -> None:
    lines = (Path(__file__).parent / "commands.txt").read_text().splitlines()
    missing = {
        f"{name} {option.opts[0]}"
        for name, command in commands(main, "")
        if name not in ELSEWHERE and any("--bootstrap-server" in option.opts for option in command.params)
        for option in command.params
        if isinstance(option, click.Option) and not EVERYWHERE & set(option.opts)
        if not any(f"{line} ".startswith(f"{name} ") and set(option.opts) & set(line.split()) for line in lines)
    }
    assert missing == NO_STEP.keys()


def commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command
