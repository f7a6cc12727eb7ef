"""`penstock security status`: which certificates there are, and when they expire."""

from pathlib import Path
from typing import Final

import click

from penstock.cli.security import folders
from penstock.cli.security.folders import DIRECTORY, found, told
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import JSON, declared, option
from penstock.cli.terminal.output import print_rows
from penstock.testing.secured.folder import SecuredFolder

HEADERS: Final = ("WHAT", "NAME", "EXPIRES", "DAYS", "BY", "HOSTS")
WARN_DAYS: Final = 30


@click.command("status")
@declared
def command(
    directory: Path = DIRECTORY,
    warn_days: int = option(
        "What expires within so many days is told of.", default=WARN_DAYS, show_default=True, min=0
    ),
    as_json: bool = JSON,
) -> None:
    """Show the authorities and the nodes' certificates in a folder, and when they expire.

    The exit code is 1 if one expires soon. What a running node shows is in its metrics, `days-left`.
    """
    folder = found(directory)
    with told():
        rows = _rows(folder)
    print_rows(list(HEADERS), rows, as_json=as_json)
    soon = [
        f"{name} {'has expired' if days < 0 else f'expires in {days} days'}"
        for _, name, _, days, _, _ in rows
        if days < warn_days
    ]
    step = _step(folder)
    if step and not as_json:
        say(step)
    if soon:
        cure = "`penstock security renew` makes new certificates, `rotate-ca` another authority"
        raise click.ClickException(f"{', '.join(soon)}: {cure}")


def _rows(folder: SecuredFolder) -> list[tuple[str, str, str, int, str, str]]:
    authorities = folder.authorities
    numbers, signing = authorities.numbers, authorities.signing
    held = [
        ("authority", authorities.certificate(number), "signs" if number == signing else "trusted")
        for number in numbers
    ]
    for node in folder.nodes:
        certificate = folder.certificate_of(node)
        signer = next((number for number in numbers if authorities.has_signed(number, certificate)), None)
        held.append(("node", certificate, "a stranger" if signer is None else f"authority {signer}"))
    rows = []
    for what, certificate, by in held:
        seen = authorities.shown(certificate)
        days = (seen.ends - folders.now()).days
        rows.append((what, seen.name, f"{seen.ends:%Y-%m-%d}", days, by, ", ".join(seen.hosts)))
    return rows


def _step(folder: SecuredFolder) -> str:
    """Where a change of authorities is."""
    numbers, signing = folder.authorities.numbers, folder.authorities.signing
    if len(numbers) == 1:
        return ""
    if signing != numbers[-1]:
        return "Two authorities are trusted, and the old one signs: when all have their files, rotate-ca --sign"
    others = [node.name for node, has_signed in folder.signed_by(signing) if not has_signed]
    if others:
        return f"The new authority has not signed for {', '.join(others)} yet: rotate-ca --sign again"
    return "The new authority signs, and both are trusted: when nodes have their files, rotate-ca --finish"
