"""Parts of JSON as they were written, so that a number keeps all its digits. ValueError says what is no JSON."""

import json
import re
from collections.abc import Iterator
from typing import Final

_DECODER: Final = json.JSONDecoder()
_SPACE: Final = re.compile(r"[ \t\r\n]*")


class _Scan:
    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0
        self._skip()

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self.at)
        self.at = found.end() if found else self.at

    def took(self, mark: str) -> bool:
        if not self._text.startswith(mark, self.at):
            return False
        self.at += len(mark)
        self._skip()
        return True

    def need(self, mark: str) -> None:
        if not self.took(mark):
            raise ValueError(f"{mark} is missing at character {self.at}")

    def value(self) -> str:
        begin = self.at
        try:
            _, self.at = _DECODER.raw_decode(self._text, begin)
        except RecursionError:
            raise ValueError("it is nested too deep") from None
        found = self._text[begin : self.at]
        self._skip()
        return found

    def end(self) -> None:
        if self.at < len(self._text):
            raise ValueError(f"something follows at character {self.at}")


def value(text: str) -> str:
    """The one that there is."""
    scan = _Scan(text)
    found = scan.value()
    scan.end()
    return found


def elements(text: str) -> Iterator[tuple[int, str]]:
    """Of an array, each with where it begins."""
    scan = _Scan(text)
    scan.need("[")
    if not scan.took("]"):
        yield scan.at, scan.value()
        while scan.took(","):
            yield scan.at, scan.value()
        scan.need("]")
    scan.end()


def members(text: str) -> dict[str, str]:
    """Of an object; where a name is there twice, the last one."""
    scan = _Scan(text)
    scan.need("{")
    found: dict[str, str] = {}
    if not scan.took("}"):
        _take_member(scan, found)
        while scan.took(","):
            _take_member(scan, found)
        scan.need("}")
    scan.end()
    return found


def _take_member(scan: _Scan, found: dict[str, str]) -> None:
    name = json.loads(scan.value())
    if not isinstance(name, str):
        raise ValueError("the name of a member is no text")
    scan.need(":")
    found[name] = scan.value()
