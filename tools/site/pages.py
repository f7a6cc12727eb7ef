"""A page of Markdown as HTML, and the sections of it that the search knows."""

import html
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound
from tools.site.contents import ROOT, address

OUTSIDE: Final = re.compile(r"^(?:https?:|mailto:|#)")
FORMATTER: Final = HtmlFormatter(cssclass="code")
OF_SHELL: Final = {"sh": "bash", "": "text"}


class Section(NamedTuple):
    """`anchor` is empty above the first heading."""

    title: str
    anchor: str
    text: str


class Page(NamedTuple):
    title: str
    body: str
    sections: list[Section]
    linked: list[Path]
    """Files that are no pages, which the site needs as well."""


def slug(heading: str, seen: Counter[str]) -> str:
    """As GitHub makes it."""
    plain = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
    seen[plain] += 1
    return plain if seen[plain] == 1 else f"{plain}-{seen[plain] - 1}"


def highlighted(code: str, label: str, _: str) -> str:
    language = label.split(" ")[0]
    try:
        lexer = get_lexer_by_name(OF_SHELL.get(language, language))
    except ClassNotFound:
        lexer = get_lexer_by_name("text")
    return str(highlight(code, lexer, FORMATTER))


def fence(_: object, tokens: list[Token], at: int, *__: object) -> str:
    return highlighted(tokens[at].content, tokens[at].info.strip(), "")


def reader() -> MarkdownIt:
    markdown = MarkdownIt("commonmark").enable("table")
    markdown.add_render_rule("fence", fence)
    markdown.add_render_rule("code_block", fence)
    markdown.add_render_rule("html_block", lambda *_: "")  # comments that mark what is derived
    return markdown


def read(page: Path, addresses: dict[Path, str]) -> Page:
    """`addresses` are those of all pages, by their files."""
    markdown = reader()
    tokens = markdown.parse(page.read_text(encoding="utf-8"))
    seen: Counter[str] = Counter()
    found = Sections()
    linked: list[Path] = []
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            heading = tokens[at + 1]
            anchor = slug(heading.content, seen)
            token.attrSet("id", anchor)
            found.begin(int(token.tag[1:]), plain(heading), anchor)
        elif token.type == "tr_open" and is_code(tokens[at + 2]):
            found.begin_row(plain(tokens[at + 2]))
        elif token.type == "table_close":
            found.end_rows()
        elif token.type in ("inline", "fence", "code_block") and tokens[at - 1].type != "heading_open":
            found.add(plain(token))
        if "style" in token.attrs:  # how a column is aligned
            token.attrs["class"] = str(token.attrs.pop("style")).replace("text-align:", "")
        for child in token.children or ():
            follow(child, page, addresses, linked)
    body = str(markdown.renderer.render(tokens, markdown.options, {}))
    return Page(found.title or page.stem, body, found.sections(), linked)


class Sections:
    """What is under each heading, and in each row of a table that begins with a word of code: a key, a command."""

    def __init__(self) -> None:
        self._trail: list[tuple[int, str]] = []
        self._found: list[tuple[str, str, list[str]]] = []
        self._rows: list[tuple[str, str, list[str]]] = []
        self._into: list[str] = []

    @property
    def title(self) -> str:
        return self._found[0][0] if self._found else ""

    def begin(self, level: int, title: str, anchor: str) -> None:
        self._trail = [one for one in self._trail if one[0] < level] + [(level, title)]
        self._into = []
        named = " › ".join(name for above, name in self._trail if above > 1) or title
        self._found.append((named, anchor, self._into))

    def begin_row(self, name: str) -> None:
        if self._found:
            self._into = []
            self._rows.append((name, self._found[-1][1], self._into))

    def end_rows(self) -> None:
        if self._found:
            self._into = self._found[-1][2]

    def add(self, text: str) -> None:
        self._into.append(text)

    def sections(self) -> list[Section]:
        return [Section(title, anchor, " ".join(text)) for title, anchor, text in self._found + self._rows]


def is_code(token: Token) -> bool:
    return token.children is not None and [child.type for child in token.children[:1]] == ["code_inline"]


def plain(token: Token) -> str:
    return "".join(child.content or " " for child in token.children) if token.children else token.content


def follow(token: Token, page: Path, addresses: dict[Path, str], linked: list[Path]) -> None:
    """Links lead to the site's own files."""
    name = {"link_open": "href", "image": "src"}.get(token.type)
    if name is None or OUTSIDE.match(str(token.attrs[name])):
        return
    path, _, anchor = str(token.attrs[name]).partition("#")
    there = (page.parent / path).resolve()
    to = addresses.get(there)
    if to is None:
        linked.append(there)
        to = file_address(there)
    here = PurePosixPath(address(page)).parent
    token.attrs[name] = relative(to, here) + (f"#{anchor}" if anchor else "")


PICTURES: Final = (".svg", ".png")


def file_address(path: Path) -> str:
    """Pictures stay as they are; of a text, or a folder, there is a page."""
    name = path.relative_to(ROOT).as_posix()
    return name.removeprefix("docs/") if path.suffix in PICTURES else f"files/{name}.html"


def relative(to: str, folder: PurePosixPath) -> str:
    """From a page in `folder`, both seen from the site's root."""
    return "../" * len(folder.parts) + to


def file_body(path: Path) -> Iterator[str]:
    """A file as it is, or the names of those in a folder."""
    yield f"<h1>{html.escape(path.relative_to(ROOT).as_posix())}</h1>"
    if path.is_dir():
        files = sorted(one.relative_to(path).as_posix() for one in path.rglob("*") if one.is_file())
        yield "<ul>" + "".join(f"<li>{html.escape(name)}</li>" for name in files if "__pycache__" not in name) + "</ul>"
    else:
        yield f'<div class="code"><pre>{html.escape(path.read_text(encoding="utf-8"))}</pre></div>'
