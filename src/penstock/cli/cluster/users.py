"""`penstock users`: who can log in with SCRAM. Passwords are asked for or in a file, as others see arguments."""

from pathlib import Path

import click

from penstock.cli.terminal.failures import in_words
from penstock.cli.terminal.lines import ask_password, confirm
from penstock.cli.terminal.options import JSON, actions, declared, option
from penstock.cli.terminal.output import print_lines, print_rows
from penstock.cli.terminal.session import NodeSession
from penstock.client.admin import Admin
from penstock.client.admin.users import DEFAULT_MECHANISM
from penstock.protocol.sasl.scram import MAX_ITERATIONS, MECHANISMS, MIN_ITERATIONS
from penstock.protocol.secret import Secret


@click.command(short_help="show, make and remove users that log in with a password (SCRAM)")
@declared
def command(
    session: NodeSession,
    action: str = actions(
        list_="Show users.",
        set_password="Make a user, or give it another password.",
        remove="Remove a user; its sessions end.",
    ),
    user: str | None = option("The user's name, without a type: ada."),
    mechanism: str | None = option(
        f"By which mechanism. [default: {DEFAULT_MECHANISM} to set a password, all to remove]",
        type=click.Choice(list(MECHANISMS), case_sensitive=False),
    ),
    iterations: int = option(
        "How often the password is worked over.",
        default=MIN_ITERATIONS,
        min=MIN_ITERATIONS,
        max=MAX_ITERATIONS,
        show_default=True,
    ),
    password_file: Path | None = option("Read the password from the first line of this file, and do not ask."),
    force: bool = option("Remove without asking."),
    as_json: bool = JSON,
) -> None:
    """Show, make and remove users of SCRAM, on all listeners that enable their mechanism.

    A change is done when every broker in service goes by it: who was removed, or has another password, logs in nowhere
    with the old one, and has no session left that began so.
    """
    if action == "list":
        _list(session, user, as_json=as_json)
        return
    if user is None:
        raise click.UsageError(f"--{action} needs --user")
    if action == "set-password":
        password = _password(user, password_file)
        name = mechanism or DEFAULT_MECHANISM
        session.run(lambda admin: admin.users.set_password(user, password, name, iterations))
        print_lines([f"{user} logs in with {name}"], {"user": user, "mechanism": name}, as_json=as_json)
        return
    if not force:
        if as_json:
            raise click.UsageError("--json does not ask: give --force as well")
        confirm(f"Remove the user {user}?")
    removed = session.run(lambda admin: remove_user(admin, user, mechanism))
    print_lines(
        [f"{user} logs in with {it} no more" for it in removed], {"user": user, "removed": removed}, as_json=as_json
    )


async def remove_user(admin: Admin, user: str, mechanism: str | None) -> list[str]:
    """The mechanisms by which the user could log in, and cannot any more."""
    names = [mechanism] if mechanism is not None else list((await admin.users.describe([user]))[user])
    for name in names:
        await admin.users.remove(user, name)
    return names


def _password(user: str, file: Path | None) -> Secret:
    if file is None:
        return Secret(ask_password(f"Password of {user}"))
    with in_words(OSError, UnicodeDecodeError, before=f"{file} cannot be read: "):
        password = file.read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
    if not password:
        raise click.UsageError(f"{file}: the password is empty")
    return Secret(password)


def _list(session: NodeSession, user: str | None, *, as_json: bool) -> None:
    found = session.run(lambda admin: admin.users.describe([] if user is None else [user]))
    rows = [(name, mechanism, its) for name, by in found.items() for mechanism, its in by.items()]
    print_rows(["USER", "MECHANISM", "ITERATIONS"], rows, as_json=as_json, empty="no users")
