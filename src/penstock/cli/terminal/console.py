"""The console of rich, for what changes while people look: texts are what they say, without markup."""

from typing import Any

from rich.console import Console
from rich.text import Text

from penstock.cli.terminal.lines import printable


class LineConsole(Console):
    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(printable(text), **how | {"markup": False, "emoji": False})
