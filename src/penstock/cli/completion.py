"""`penstock completion`: what a shell needs to complete commands and options."""

from typing import Final

import click
from click.shell_completion import get_completion_class

from penstock.cli.terminal.lines import say

INSTRUCTIONS: Final = {
    "bash": 'eval "$(penstock completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(penstock completion zsh)"    # in ~/.zshrc',
    "fish": "penstock completion fish | source      # in ~/.config/fish/config.fish",
}


@click.command(
    short_help="print what a shell needs to complete commands", epilog="\b\n" + "\n".join(INSTRUCTIONS.values())
)
@click.argument("shell", type=click.Choice(list(INSTRUCTIONS)))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the completion script for SHELL; the shell's start file evaluates it."""
    completion = get_completion_class(shell)
    assert completion is not None
    root = context.find_root()
    say(*completion(root.command, {}, "penstock", "_PENSTOCK_COMPLETE").source().split("\n"))
