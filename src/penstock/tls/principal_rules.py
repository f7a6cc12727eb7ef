r"""`ssl.principal.mapping.rules`: how the subject of a certificate becomes the name of a user.

Rules with commas between them, the first that fits counts: `DEFAULT` takes the subject as it is, and
`RULE:pattern/replacement/` with `L` or `U` behind it what the pattern of the whole subject makes of it, in small or
capital letters. `$1` stands for the first group; a backslash keeps a slash from ending the pattern.
"""

import re
from typing import Final

from penstock.protocol.value import Value
from penstock.tls.errors import TlsConfigError

KEY = "ssl.principal.mapping.rules"
_RULE: Final = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))?\s*(?:,\s*|$)")
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d+)")


class Rule(Value):
    """Without a pattern: every subject as it is."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def name_of(self, subject: str) -> str | None:
        """None: it does not fit."""
        if self.pattern is None:
            return subject
        if self.pattern.fullmatch(subject) is None:
            return None
        name = self.pattern.sub(self._replaced, subject)
        return {"L": name.lower(), "U": name.upper()}.get(self.case, name)

    def _replaced(self, found: re.Match[str]) -> str:
        return _REFERENCE.sub(lambda reference: _meant(found, reference), self.replacement)


class PrincipalRules(Value):
    rules: tuple[Rule, ...]

    def name_of(self, subject: str) -> str:
        """ValueError where no rule fits."""
        for rule in self.rules:
            name = rule.name_of(subject)
            if name is not None:
                return name
        raise ValueError(
            f"no rule of {KEY} fits the subject of the client's certificate, {subject}: DEFAULT at their end fits all"
        )


def parse_rules(text: str) -> PrincipalRules:
    """TlsConfigError for what is none."""
    rules, at, text = list[Rule](), 0, text.strip()
    while at < len(text):
        found = _RULE.match(text, at)
        if found is None or found.end() == at:
            raise TlsConfigError(KEY, f"{KEY}: {text[at:]!r} is neither DEFAULT nor RULE:pattern/replacement/[LU]")
        at = found.end()
        default, pattern, replacement, case = found.groups()
        if default:
            rules.append(Rule())
        elif pattern is not None:
            rules.append(Rule(_compiled(pattern), replacement, case))
    return PrincipalRules(tuple(rules))


def _compiled(pattern: str) -> re.Pattern[str]:
    """Java names groups without the P."""
    try:
        return re.compile(re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", pattern))
    except re.error as error:
        raise TlsConfigError(KEY, f"{KEY}: {pattern!r} is no pattern: {error}") from None


def _meant(found: re.Match[str], reference: re.Match[str]) -> str:
    """Of a number that has no group as many digits count as make one that has; the others stand for themselves."""
    escaped, digits = reference.groups()
    if escaped is not None:
        return str(escaped)
    for length in range(len(digits), 0, -1):
        if int(digits[:length]) <= len(found.groups()):
            return (found.group(int(digits[:length])) or "") + digits[length:]
    return f"${digits}"
