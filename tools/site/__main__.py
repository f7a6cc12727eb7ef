"""Writes the site: `python -m tools.site [DIRECTORY]`, by default into `site/`."""

import html
import json
import shutil
import sys
from pathlib import Path, PurePosixPath
from string import Template
from typing import Final

from pygments.formatters import HtmlFormatter
from tools.site.contents import CONTENTS, ROOT, address, pages
from tools.site.pages import PICTURES, Page, file_address, file_body, read, relative

import penstock
from penstock.cli.terminal.shipped import commit

HERE: Final = Path(__file__).resolve().parent
ICON: Final = ROOT / "src/penstock/console/assets/icon.svg"
LIGHT: Final = "default"
DARK: Final = "github-dark"
SEARCH: Final = """<h1>Search</h1>
<noscript><p>The search needs JavaScript; all pages are named beside.</p></noscript>
<p id="how-many" role="status"></p>
<ol id="found"></ol>
<script src="index.js" defer></script>
<script src="search.js" defer></script>"""


class Site:
    """Writes pages into a directory, each with the contents beside it.

    `versions` is a page of other versions, seen from the site's root, to which the version in each head leads.
    """

    def __init__(self, directory: Path, versions: str | None = None) -> None:
        self._directory = directory
        self._template = Template((HERE / "page.html").read_text(encoding="utf-8"))
        made_of = commit()
        self._version = html.escape(penstock.__version__ + (f" ({made_of})" if made_of else ""))
        self._versions = versions
        self._addresses = {page: address(page) for page in pages()}
        self._read: dict[Path, Page] = {page: read(page, self._addresses) for page in self._addresses}

    def write(self) -> None:
        for page, it in self._read.items():
            self._page(self._addresses[page], it.title, it.body)
        for path in {linked for it in self._read.values() for linked in it.linked}:
            if path.suffix in PICTURES:
                self._file(file_address(path)).write_bytes(path.read_bytes())
            else:
                self._page(file_address(path), path.name, "\n".join(file_body(path)))
        self._page("search.html", "Search", SEARCH)
        index = json.dumps(self.index(), ensure_ascii=False, separators=(",", ":"))
        self._file("index.js").write_text(f"const INDEX = {index};\n", encoding="utf-8")
        self._file("style.css").write_text(
            (HERE / "style.css").read_text(encoding="utf-8") + of_code(), encoding="utf-8"
        )
        shutil.copyfile(HERE / "search.js", self._file("search.js"))
        shutil.copyfile(ICON, self._file("icon.svg"))
        self._file("version.txt").write_text(penstock.__version__ + "\n", encoding="utf-8")

    def index(self) -> list[tuple[str, str, str, str]]:
        """Address, page, section and text of each section."""
        return [
            (f"{self._addresses[page]}#{section.anchor}", it.title, section.title, section.text)
            for page, it in self._read.items()
            for section in it.sections
        ]

    def _file(self, name: str) -> Path:
        path = self._directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _page(self, name: str, title: str, body: str) -> None:
        folder = PurePosixPath(name).parent
        text = self._template.substitute(
            title=html.escape(title),
            root=relative("", folder),
            version=self._version_link(folder),
            contents=self._contents(name, folder),
            body=body,
        )
        self._file(name).write_text(text, encoding="utf-8")

    def _version_link(self, folder: PurePosixPath) -> str:
        if self._versions is None:
            return self._version
        return f'<a href="{relative(self._versions, folder)}">{self._version}, other versions</a>'

    def _contents(self, current: str, folder: PurePosixPath) -> str:
        lines = []
        for what, names in CONTENTS.items():
            lines.append(f"<section><h2>{what}</h2><ul>")
            for name in names:
                to = self._addresses[ROOT / name]
                here = ' aria-current="page"' if to == current else ""
                title = html.escape(self._read[ROOT / name].title)
                lines.append(f'<li><a href="{relative(to, folder)}"{here}>{title}</a></li>')
            lines.append("</ul></section>")
        return "\n".join(lines)


def of_code() -> str:
    """Colours of code, by day and by night."""
    light, dark = (HtmlFormatter(style=style).get_style_defs(".code") for style in (LIGHT, DARK))
    ours = "\n.code { background: var(--soft); }\n"
    return f"\n{light}{ours}@media (prefers-color-scheme: dark) {{\n{dark}{ours}}}\n"


def main() -> None:
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site"
    shutil.rmtree(directory, ignore_errors=True)
    Site(directory).write()
    print(f"wrote {directory}/index.html")


if __name__ == "__main__":
    main()
