"""`penstock security rotate-ca`: another authority, in three steps, each of which may be repeated."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from penstock.cli.security.folders import DIRECTORY, RELOADED, found, told
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import actions, declared, option
from penstock.testing.secured.authorities import NODE_DAYS
from penstock.testing.secured.folder import SecuredFolder
from penstock.testing.secured.settings import JAVA_FILE, KEY_FILE, TRUST_FILE


@click.command("rotate-ca")
@declared
def command(
    action: str = actions(
        begin="Make another authority, which is trusted beside the one that is there.",
        sign="Give all nodes certificates by the new one.",
        finish="Trust the old one no more.",
    ),
    directory: Path = DIRECTORY,
    days: int = option("How long nodes' certificates hold.", default=NODE_DAYS, show_default=True, min=1, max=3650),
) -> None:
    """Replace the authority of a cluster while it runs.

    In between both authorities are trusted. After each step all nodes, and after the first all clients as well, have
    to have their new files before the next one; `penstock security status` shows which step was the last.
    """
    folder = found(directory)
    with told():
        STEPS[action](folder, days)


def _begin(folder: SecuredFolder, days: int) -> None:
    authorities = folder.authorities
    numbers = authorities.numbers
    if len(numbers) == 1:
        authorities.let_sign(numbers[0])
        authorities.add()
    elif authorities.signing == numbers[-1]:
        raise click.ClickException("the new authority signs already: go on with --finish")
    folder.write_trust()
    say(
        f"Both authorities are in {TRUST_FILE} of all nodes and clients, and in {JAVA_FILE}.",
        f"  nodes     {RELOADED}; where they have their files elsewhere, take them there",
        "  clients   take them their files, and start them again",
        "  then      penstock security rotate-ca --sign",
    )


def _sign(folder: SecuredFolder, days: int) -> None:
    authorities = folder.authorities
    newest = authorities.numbers[-1]
    if len(authorities.numbers) == 1:
        raise click.ClickException("there is one authority: make another one with --begin")
    folder.write_trust()  # --begin may have been interrupted
    authorities.let_sign(newest)
    for node, has_signed in folder.signed_by(newest):
        if not has_signed:
            folder.sign_again(node, days)
        say(f"{node.name}: {node / KEY_FILE} is signed by the new authority")
    say(RELOADED, "then: penstock security rotate-ca --finish")


def _finish(folder: SecuredFolder, days: int) -> None:
    authorities = folder.authorities
    newest = authorities.numbers[-1]
    others = [node.name for node, has_signed in folder.signed_by(newest) if not has_signed]
    if authorities.signing != newest or others:
        named = ", ".join(others) or "no node"
        raise click.ClickException(f"the old authority has still signed for {named}: first --sign")
    authorities.keep_only(newest)
    folder.write_trust()
    say(f"Only the new authority is trusted, and the old one's key is gone. {RELOADED.capitalize()}.")


STEPS: Final[dict[str, Callable[[SecuredFolder, int], None]]] = {"begin": _begin, "sign": _sign, "finish": _finish}
