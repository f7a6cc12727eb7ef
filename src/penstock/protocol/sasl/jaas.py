"""`sasl.jaas.config`: one login module of Java's with options, read as Java reads it (`StreamTokenizer`).

    org.apache.kafka.common.security.plain.PlainLoginModule required username="ada" password="…" user_ada="…";

Words of letters, digits, `.`, `_`, `$` and `-`; other text stands in quotes; `/` begins a comment. No error tells a
value: it may be a password.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from penstock.protocol.sasl.mechanism import OAUTHBEARER, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512
from penstock.protocol.secret import Secret
from penstock.protocol.value import Value

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
MODULES: Final = {
    PLAIN: PLAIN_MODULE,
    SCRAM_SHA_256: SCRAM_MODULE,
    SCRAM_SHA_512: SCRAM_MODULE,
    OAUTHBEARER: OAUTH_MODULE,
}
USER: Final = "user_"
FLAGS: Final = ("required", "requisite", "sufficient", "optional")
FORM: Final = '<login module> required <option>="<value>" …;'
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_TOKEN: Final = re.compile(
    r"""(?P<space>[\x00-\x20]+|//[^\r\n]*|/\*.*?(?:\*/|\Z)|/[^\r\n]*)
    |(?P<word>[A-Za-z_$\x80-\U0010ffff][A-Za-z0-9_$.\-\x80-\U0010ffff]*)
    |(?P<quote>["'])(?P<quoted>(?:\\.|(?!(?P=quote))[^\\\r\n])*)(?:(?P=quote)|(?=[\r\n])|\Z)
    |(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[0-7]{1,2}|.)", re.DOTALL)


class JaasError(ValueError):
    """What is wrong with it, and how it has to look."""


class LoginModule(Value):
    name: str
    options: Mapping[str, Secret]

    def text(self, option: str) -> str | None:
        found = self.options.get(option)
        return None if found is None else found.text

    @property
    def users(self) -> dict[str, Secret]:
        """Whom a listener with PLAIN knows: options `user_<name>`."""
        return {name.removeprefix(USER): it for name, it in self.options.items() if name.startswith(USER)}


def parse_jaas(text: str, mechanism: str) -> LoginModule:
    """Raises JaasError, also for the module of another mechanism."""
    tokens = _tokens(text)
    modules = []
    for kind, name in tokens:
        if kind == "mark":
            raise JaasError(f"it does not begin with the name of a login module: {FORM}")
        modules.append(LoginModule(name, _options(tokens)))
    if len(modules) != 1:
        raise JaasError(f"it has {len(modules)} login modules, and one is needed: {FORM}")
    wanted = MODULES[mechanism]
    if modules[0].name != wanted:
        raise JaasError(f"its login module is another one than that of {mechanism}, which is {wanted}")
    return modules[0]


def _options(tokens: Iterator[tuple[str, str]]) -> dict[str, Secret]:
    _, flag = next(tokens, ("mark", ""))
    if flag.lower() not in FLAGS:
        raise JaasError(f"behind the login module one of {', '.join(FLAGS)} is missing: {FORM}")
    options: dict[str, Secret] = {}
    for kind, name in tokens:
        if kind == "mark":
            if name == ";":
                return options
            raise JaasError(f"an option is no name: {FORM}")
        if next(tokens, None) != ("mark", "="):
            raise JaasError(f"behind the option {name} there is no =: {FORM}")
        kind, value = next(tokens, ("mark", ""))
        if kind == "mark":
            raise JaasError(f"the option {name} has no value, or one that has to stand in quotes: {FORM}")
        options[name] = Secret(value)
    raise JaasError(f"there is no semicolon at its end: {FORM}")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Words, quoted texts, and marks, which are single characters."""
    for found in _TOKEN.finditer(text):
        if found["word"] is not None:
            yield "word", found["word"]
        elif found["quote"] is not None:
            yield "word", _ESCAPE.sub(_unescaped, found["quoted"])
        elif found["mark"] is not None:
            yield "mark", found["mark"]


def _unescaped(found: re.Match[str]) -> str:
    text = found[1]
    return chr(int(text, 8)) if text[0] in "01234567" else _ESCAPES.get(text, text)


def credentials_of(text: str, mechanism: str) -> tuple[str, Secret, bool]:
    """As whom a client logs in: the user, or a delegation token, and whether it is one. Raises JaasError."""
    module = parse_jaas(text, mechanism)
    user, password = module.text("username"), module.options.get("password")
    if not user or password is None:
        raise JaasError("its options username and password say as whom to log in, and one of them is missing")
    by_token = (module.text("tokenauth") or "").lower() == "true"
    if by_token and module.name != SCRAM_MODULE:
        raise JaasError("tokenauth: delegation tokens log in by SCRAM alone")
    return user, password, by_token
