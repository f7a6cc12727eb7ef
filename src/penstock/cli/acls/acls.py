"""`penstock acls`: access rules, with the options of kafka-acls.sh, and more."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from penstock.cli.acls.explained import explained
from penstock.cli.acls.kept import apply, plan, suggested
from penstock.cli.acls.wanted import (
    COLUMNS,
    About,
    Roles,
    Who,
    check_goes,
    filters_of,
    matching,
    operation_of,
    resources_of,
    row,
    rules_of,
)
from penstock.cli.terminal.lines import confirm, say
from penstock.cli.terminal.options import FILE, JSON, actions, argument, declared, option
from penstock.cli.terminal.output import print_lines, print_rows
from penstock.cli.terminal.session import NodeSession
from penstock.metadata.access_explained import NOWHERE, Question
from penstock.protocol.acls import AclBinding, AclFilter, PatternType


@click.command(short_help="show, make, explain and plan access rules (ACLs)")
@declared
def command(
    session: NodeSession,
    about: About,
    who: Who,
    roles: Roles,
    files: tuple[Path, ...] = argument(nargs=-1, type=FILE, metavar="[FILE]..."),
    action: str = actions(
        add="Make rules.",
        remove="Remove rules.",
        list_="Show rules.",
        explain="Say whether --principal may do --operation with the resource, and by which rule, or why by none.",
        plan="Show what a file of rules would change; it says all rules that the cluster shall have.",
        apply="Show that, and change it.",
        suggest="Print a file of the rules that are there, and of those that audit logs say are missing.",
    ),
    principal: tuple[str, ...] = option("Only rules of this user, for --list; whom --explain is about."),
    host: str | None = option("Where the user is, for --explain; without it, where rules for all hosts hold alone."),
    force: bool = option("Remove and apply without asking."),
    as_json: bool = JSON,
) -> None:
    """Show, make and remove access rules: who may do what, on what, from where.

    They hold where nodes have an authorizer (authorizer.class.name). What no rule allows is denied then.
    """
    _check(action, about, who, roles, principal)
    _check_more(action, files, principal, host, is_asked=not force and as_json)
    if action == "list":
        _list(session, about, principal, as_json=as_json)
    elif action == "explain":
        explained(session, _question(about, who, principal, host), as_json=as_json)
    elif action == "plan":
        plan(session, files[0], as_json=as_json)
    elif action == "apply":
        apply(session, files[0], force=force, as_json=as_json)
    elif action == "suggest":
        suggested(session, files)
    else:
        _change(session, action, about, who, roles, force=force, as_json=as_json)


def _change(
    session: NodeSession, action: str, about: About, who: Who, roles: Roles, *, force: bool, as_json: bool
) -> None:
    resources, entries = resources_of(about, who, roles), list(who.entries())
    if action == "add":
        if about.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise click.UsageError("--resource-pattern-type: rules are made with literal or prefixed")
        if not entries:
            raise click.UsageError("give --allow-principal or --deny-principal: a rule is about somebody")
        made = list(rules_of(resources, entries, about.pattern))
        session.run(lambda admin: admin.acls.create(made))
        _show(made, "made", as_json=as_json)
        return
    filters = filters_of(resources, entries, about.pattern)
    if not force:
        found = session.run(lambda admin: matching(admin, filters))
        if not found:
            print_lines(["no such rule"], {"removed": []}, as_json=as_json)
            return
        print_rows(COLUMNS, [row(rule) for rule in found], as_json=False)
        confirm("Remove these rules?")
    _show(session.run(lambda admin: admin.acls.delete(filters)), "removed", as_json=as_json)


def _check(action: str, about: About, who: Who, roles: Roles, principal: Sequence[str]) -> None:
    problems = {
        "--principal is for --list and --explain; rules are made for --allow-principal": principal
        and action not in ("list", "explain"),
        "--list takes no principals, hosts, operations or roles but --principal": action == "list"
        and (who.is_said or roles.is_given),
        "--producer and --consumer say the operations, and deny nothing": roles.is_given
        and (who.operation or who.deny_principal or who.deny_host),
        "--producer needs a --topic": roles.producer and not about.topic,
        "--idempotent is for --producer": roles.idempotent and not roles.producer,
        "--consumer needs a --topic and a --group": roles.consumer and not (about.topic and about.group),
        "--consumer is not about --cluster or --transactional-id": roles.consumer
        and not roles.producer
        and (about.cluster or about.transactional_id),
        f"--{action} takes a file, and no rules": action in ("plan", "apply", "suggest")
        and (who.is_said or roles.is_given or any(about.named(cluster=about.cluster))),
        "--explain is about one --principal, --operation and resource": action == "explain"
        and (
            roles.is_given
            or any((who.allow_principal, who.deny_principal, who.allow_host, who.deny_host))
            or about.pattern is not PatternType.LITERAL
            or [len(principal), len(who.operation), len([*about.named(cluster=about.cluster)])] != [1, 1, 1]
        ),
    }
    _complain(problems)


def _check_more(
    action: str, files: Sequence[Path], principal: Sequence[str], host: str | None, *, is_asked: bool
) -> None:
    problems = {
        f"--{action} takes one FILE": action in ("plan", "apply") and len(files) != 1,
        "--suggest takes a FILE for each audit log": action == "suggest" and not files,
        f"--{action} takes no FILE": action not in ("plan", "apply", "suggest") and files,
        "--host is for --explain; rules hold from --allow-host": host is not None and action != "explain",
        "--json does not ask: give --force as well": is_asked and action in ("remove", "apply"),
    }
    _complain(problems)


def _complain(problems: Mapping[str, object]) -> None:
    for problem, is_there in problems.items():
        if is_there:
            raise click.UsageError(problem)


def _question(about: About, who: Who, principals: Sequence[str], host: str | None) -> Question:
    ((resource, name),) = about.named(cluster=about.cluster)
    if ":" not in principals[0]:
        raise click.UsageError(f"{principals[0]!r} is no principal: give its type too, as in User:{principals[0]}")
    operation = operation_of(who.operation[0])
    check_goes(operation, resource)
    return Question(principals[0], operation, resource, name, NOWHERE if host is None else host)


def _list(session: NodeSession, about: About, principals: Sequence[str], *, as_json: bool) -> None:
    filters = [AclFilter(*named, about.pattern) for named in about.named(cluster=about.cluster)]
    found = session.run(lambda admin: matching(admin, filters or [AclFilter()]))
    shown = [rule for rule in found if not principals or rule.principal in principals]
    print_rows(COLUMNS, [row(rule) for rule in shown], as_json=as_json, empty="no access rules")


def _show(rules: Sequence[AclBinding], done: str, *, as_json: bool) -> None:
    if not as_json:
        say(f"{done}: {len(rules)}")
    print_rows(COLUMNS, [row(rule) for rule in rules], as_json=as_json, empty="no such rule")
