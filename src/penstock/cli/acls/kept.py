"""`penstock acls --plan`, `--apply` and `--suggest`: the rules of a cluster as a file says them.

What is new is made before what is to go is removed. In between both hold, which allows nothing that is not allowed
before or behind. What lets somebody change rules goes last, and who will not be let any more is told.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final
from uuid import UUID

from penstock.cli.acls.explained import shown_rule
from penstock.cli.acls.rule_file import read_rules, written
from penstock.cli.acls.suggested import denials, suggest
from penstock.cli.terminal.failures import in_words
from penstock.cli.terminal.lines import confirm, printable, say
from penstock.cli.terminal.output import print_lines
from penstock.cli.terminal.session import NodeSession
from penstock.client.admin import Admin
from penstock.metadata.access_explained import NOWHERE
from penstock.metadata.access_rules import AccessRules
from penstock.protocol.acls import CLUSTER_NAME, WILDCARD, AclBinding, AclFilter, Operation, Permission, Resource
from penstock.protocol.value import Value

AT_ONCE: Final = 500
"""Rules in a request."""
OTHERWISE: Final = "unless it is in super.users"


class Difference(Value):
    """What a cluster lacks of a file, and has besides; `shut_out`: who may change rules now, and then no more."""

    missing: tuple[AclBinding, ...]
    surplus: tuple[AclBinding, ...]
    shut_out: tuple[str, ...] = ()

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
    shut_out = tuple(sorted(_rulers(there) - _rulers(wanted)))
    return Difference(tuple(sorted(wanted - there)), tuple(sorted(there - wanted, key=_lets_rule)), shut_out)


def _rulers(rules: Collection[AclBinding]) -> set[str]:
    """Who may change rules, from anywhere or from some host."""
    decided = AccessRules()
    for number, rule in enumerate(rules):
        decided.add(UUID(int=number), rule)
    about = {(rule.principal, rule.host) for rule in rules if rule.resource_type == Resource.CLUSTER}
    asked = Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME
    return {
        who
        for who, host in about
        if decided.allows(who, NOWHERE if host == WILDCARD else host.partition("/")[0], *asked)
    }


def _lets_rule(rule: AclBinding) -> tuple[bool, AclBinding]:
    return rule.resource_type == Resource.CLUSTER and rule.permission_type == Permission.ALLOW, rule


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
    lines += [f"{who} may change access rules no more, {OTHERWISE}" for who in found.shut_out]
    counts = f"{made}: {len(found.missing)}, {removed}: {len(found.surplus)}"
    document = {
        made.replace(" ", "_"): [rule._asdict() for rule in found.missing],
        removed.replace(" ", "_"): [rule._asdict() for rule in found.surplus],
        "shut_out": list(found.shut_out),
    }
    print_lines(
        [*lines, counts] if found else ["the cluster has these rules, and no others"], document, as_json=as_json
    )
