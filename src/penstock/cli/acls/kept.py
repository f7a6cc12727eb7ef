"""`penstock acls --plan`, `--apply` and `--suggest`: the rules of a cluster as a file says them.

What is new is made before what is to go is removed. In between both hold, which allows nothing that is not allowed
before or behind.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from penstock.cli.acls.explained import shown_rule
from penstock.cli.acls.rule_file import read_rules, written
from penstock.cli.acls.suggested import denials, suggest
from penstock.cli.terminal.failures import in_words
from penstock.cli.terminal.lines import confirm, printable, say
from penstock.cli.terminal.output import print_lines
from penstock.cli.terminal.session import NodeSession
from penstock.client.admin import Admin
from penstock.protocol.acls import AclBinding, AclFilter
from penstock.protocol.value import Value

AT_ONCE: Final = 500
"""Rules in a request."""


class Difference(Value):
    """What a cluster lacks of a file, and has besides; sorted."""

    missing: tuple[AclBinding, ...]
    surplus: tuple[AclBinding, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.surplus)


def plan(session: NodeSession, path: Path, *, as_json: bool) -> None:
    _show(_difference(session, path), "to make", "to remove", as_json=as_json)


def apply(session: NodeSession, path: Path, *, force: bool, as_json: bool) -> None:
    found = _difference(session, path)
    if found and not force:
        _show(found, "to make", "to remove", as_json=False)
        confirm("Change that?")
    session.run(lambda admin: _made_so(admin, found))
    _show(found, "made", "removed", as_json=as_json)


def suggested(session: NodeSession, paths: Sequence[Path]) -> None:
    with in_words(OSError):
        found = list(dict.fromkeys(it for path in paths for it in denials(_lines(path))))
    there = session.run(lambda admin: admin.acls.describe(AclFilter()))
    suggestion = suggest(found, there)
    with in_words(ValueError):
        texts = [written(there)] if there else []
    if suggestion.rules:
        texts += ["# What the logs say is missing", written(suggestion.rules)]
    for denial, rule in suggestion.denied:
        name = f"{denial.operation.name} {denial.resource.name} {denial.name!r}"
        texts.append(printable(f"# {denial.principal} wants {name}, which a rule denies: {shown_rule(rule)}"))
    say(*"\n".join(texts).rstrip("\n").split("\n"))
    say(f"rules that are missing: {len(suggestion.rules)}", err=True)


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as file:
        yield from file


def _difference(session: NodeSession, path: Path) -> Difference:
    with in_words(OSError, ValueError, before=f"{path}: "):
        wanted = set(read_rules(path))
    there = set(session.run(lambda admin: admin.acls.describe(AclFilter())))
    return Difference(tuple(sorted(wanted - there)), tuple(sorted(there - wanted)))


async def _made_so(admin: Admin, difference: Difference) -> None:
    for rules in _parts(difference.missing):
        await admin.acls.create(rules)
    for rules in _parts(difference.surplus):
        await admin.acls.delete([AclFilter(*rule) for rule in rules])


def _parts(rules: Sequence[AclBinding]) -> Iterator[Sequence[AclBinding]]:
    left = iter(rules)
    while part := list(islice(left, AT_ONCE)):
        yield part


def _show(found: Difference, made: str, removed: str, *, as_json: bool) -> None:
    lines = [f"+ {shown_rule(rule)}" for rule in found.missing] + [f"- {shown_rule(rule)}" for rule in found.surplus]
    counts = f"{made}: {len(found.missing)}, {removed}: {len(found.surplus)}"
    document = {
        made.replace(" ", "_"): [rule._asdict() for rule in found.missing],
        removed.replace(" ", "_"): [rule._asdict() for rule in found.surplus],
    }
    print_lines(
        [*lines, counts] if found else ["the cluster has these rules, and no others"], document, as_json=as_json
    )
