"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): each side proves that it knows the password, and says nothing.

As in Kafka there is no channel binding, and names are not normalised. The extension `tokenauth` of the first message
says that the name is the id of a delegation token, and the password made of its HMAC. A user that there is not gets the
same exchange as one that there is, with a salt that stays the same and looks like others, and fails at its end.
"""

import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection
from hashlib import new, pbkdf2_hmac
from typing import Final

from penstock.protocol.sasl.mechanism import SCRAM_SHA_256, SCRAM_SHA_512, SaslError, shown
from penstock.protocol.secret import Secret
from penstock.protocol.value import Value

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""For users of a cluster; a client does as many as a server asks, up to the next limit."""
MOST_ITERATIONS: Final = 1_000_000
SALT_BYTES: Final = 24
NONCE_BYTES: Final = 24
JAVAS_BITS: Final = 130
JAVAS_BYTES: Final = range(22, 27)
"""How long such a number is in digits and letters, but for one in a hundred million."""
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
MAX_MESSAGE_BYTES: Final = 8 * 1024
"""Names and salts have limits that are far below; a longer one would take long to be looked through."""
TOKEN_EXTENSION: Final = "tokenauth"

_VALUE = "[^,\0]+"
_NAME = "(?:[^=,\0]|=2C|=3D)+"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64 = "[A-Za-z0-9/+]+={0,2}"
_EXTENSIONS = f"(?:,[A-Za-z]+={_VALUE})*"
_CLIENT_FIRST = re.compile(
    f"(?P<gs2>n,(?:a=(?P<authzid>{_NAME}))?,)(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})(?P<more>{_EXTENSIONS}))"
)
_SERVER_FIRST = re.compile(f"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}")
_CLIENT_FINAL = re.compile(
    f"(?P<unproven>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL = re.compile(f"v=(?P<signature>{_BASE64}){_EXTENSIONS}")


class ScramMechanism(Value):
    """`number` stands for it in records and requests."""

    name: str
    number: int
    hash_name: str

    def salted(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Takes milliseconds."""
        return pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)

    def hmac(self, key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, self.hash_name)

    def hash(self, data: bytes) -> bytes:
        return new(self.hash_name, data).digest()

    def stored_key(self, salted: bytes) -> bytes:
        return self.hash(self.hmac(salted, b"Client Key"))

    def server_key(self, salted: bytes) -> bytes:
        return self.hmac(salted, b"Server Key")


MECHANISMS: Final = {
    one.name: one for one in (ScramMechanism(SCRAM_SHA_256, 1, "sha256"), ScramMechanism(SCRAM_SHA_512, 2, "sha512"))
}
BY_NUMBER: Final = {one.number: one for one in MECHANISMS.values()}


class ScramCredential(Value):
    """What a server knows of a user. It does not log in, but whoever has it can try passwords."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return "ScramCredential([hidden])"


class Form(Value):
    """What a server's first message shows of a user."""

    iterations: int
    salt_bytes: int
    """0: of Kafka's tools, which draw a number and write it in digits and letters, with `JAVAS_BITS`."""


OWN_FORM: Final = Form(MIN_ITERATIONS, SALT_BYTES)


def form_of(credential: ScramCredential) -> Form:
    salt = credential.salt
    is_javas = len(salt) in JAVAS_BYTES and not salt.strip(_DIGITS)
    return Form(credential.iterations, 0 if is_javas else len(salt))


def invented(mechanism: ScramMechanism, name: str, secret: bytes, forms: Collection[Form]) -> ScramCredential:
    """What a user that there is not seems to have: always the same, in one of the forms, those that users have."""
    seed = mechanism.hmac(secret, f"{mechanism.name} {name}".encode("utf-8", "replace"))
    form = min(forms, key=lambda one: mechanism.hmac(seed, f"{one.iterations} {one.salt_bytes}".encode()))
    key = mechanism.hmac(seed, b"key")
    return ScramCredential(_salt(mechanism, seed, form.salt_bytes), key, key, form.iterations)


def _salt(mechanism: ScramMechanism, seed: bytes, size: int) -> bytes:
    drawn = b"".join(mechanism.hmac(seed, number.to_bytes(2, "big")) for number in range(size // len(seed) + 1))
    if size:
        return drawn[:size]
    number, text = int.from_bytes(drawn, "big") % (1 << JAVAS_BITS), b""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        text = _DIGITS[digit : digit + 1] + text
    return text


Find = Callable[[str], ScramCredential | None]


class FoundToken(Value):
    """A delegation token that holds: with what it logs in, as whom, and for how long from now."""

    credential: ScramCredential
    owner: str
    lifetime_ms: int


class ScramServer:
    """`find` knows the users, `invent` makes up those that there are not; `nonce` is used for one login.

    `find_token` knows delegation tokens; None if there are none.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        find: Find,
        invent: Callable[[str], ScramCredential],
        nonce: str,
        find_token: Callable[[str], FoundToken | None] | None = None,
    ) -> None:
        self._mechanism = mechanism
        self._find = find
        self._invent = invent
        self._nonce = nonce
        self._gs2 = self._said = self._name = ""
        self._credential: ScramCredential | None = None
        self._is_known = False
        self._find_token = find_token
        self.user: str | None = None
        self.lifetime_ms: int | None = None
        self.token_id: str | None = None

    @property
    def proof(self) -> object:
        return self._credential

    def evaluate(self, token: bytes) -> bytes:
        if self.user is not None:
            raise SaslError("Authentication failed: a token behind the last one")
        return self._first(token) if self._credential is None else self._final(token)

    def _first(self, token: bytes) -> bytes:
        found = _match(_CLIENT_FIRST, token, "first message of a client")
        name = _plain_name(found["name"])
        if found["authzid"] is not None and _plain_name(found["authzid"]) != name:
            raise SaslError("Authentication failed: the authorization id is another than the user name")
        self.token_id = name if _extensions(found["more"]).get(TOKEN_EXTENSION, "").lower() == "true" else None
        known, stranger = self._known(name), self._invent(name)
        self._is_known, self._credential = known is not None, known or stranger
        self._name, self._gs2 = name, found["gs2"]
        self._nonce = found["nonce"] + self._nonce
        salt = b64encode(self._credential.salt).decode()
        challenge = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._said = f"{found['bare']},{challenge}"
        return challenge.encode()

    def _final(self, token: bytes) -> bytes:
        credential = self._credential
        assert credential is not None
        found = _match(_CLIENT_FINAL, token, "final message of a client")
        if found["nonce"] != self._nonce:
            is_doubled = found["nonce"].endswith(self._nonce)
            hint = ", as librdkafka before 2.6.1 sends it: it needs a newer one" if is_doubled else ""
            raise SaslError(self._refused, f"the nonce of the final message is another one{hint}")
        if _decoded(found["channel"]) != self._gs2.encode():
            raise SaslError(self._refused, "the final message repeats another header")
        said = f"{self._said},{found['unproven']}".encode()
        signature = self._mechanism.hmac(credential.stored_key, said)
        key = _xor(_decoded(found["proof"]), signature)
        is_proved = hmac.compare_digest(self._mechanism.hash(key), credential.stored_key)
        if not (is_proved and self._is_known and self._known(self._name) == credential):
            what = "user" if self.token_id is None else "delegation token"
            raise SaslError(
                self._refused, f"wrong password of the {what} {shown(self._name)}, or there is no such {what}"
            )
        by = self._token(self._name)
        self.user, self.lifetime_ms = (self._name, None) if by is None else (by.owner, by.lifetime_ms)
        return b"v=" + b64encode(self._mechanism.hmac(credential.server_key, said))

    def _known(self, name: str) -> ScramCredential | None:
        if self.token_id is None:
            return self._find(name)
        token = self._token(name)
        return None if token is None else token.credential

    def _token(self, name: str) -> FoundToken | None:
        return None if self.token_id is None or self._find_token is None else self._find_token(name)

    @property
    def _refused(self) -> str:
        return f"Authentication failed: wrong credentials for the mechanism {self._mechanism.name}"


class ScramClient:
    """`nonce` is used for one login. `evaluate` takes milliseconds once: it works the password up.

    With `by_token` the user is the id of a delegation token, and the password its HMAC as base64.
    """

    def __init__(
        self, mechanism: ScramMechanism, user: str, password: Secret, nonce: str, by_token: bool = False
    ) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._bare += f",{TOKEN_EXTENSION}=true" if by_token else ""
        self._signature: bytes | None = None

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def evaluate(self, challenge: bytes) -> bytes | None:
        if self._signature is None:
            return self._proof(challenge)
        found = _match(_SERVER_FINAL, challenge, "final message of a server")
        if not hmac.compare_digest(_decoded(found["signature"]), self._signature):
            raise SaslError("the server does not know the password that it takes: somebody else may have answered")
        return None

    def _proof(self, challenge: bytes) -> bytes:
        found = _match(_SERVER_FIRST, challenge, "first message of a server")
        nonce, iterations = found["nonce"], int(found["iterations"])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise SaslError("the server answers another login: its nonce does not go on with ours")
        if not MIN_ITERATIONS <= iterations <= MOST_ITERATIONS:
            limits = f"{MIN_ITERATIONS} to {MOST_ITERATIONS}"
            raise SaslError(f"the server asks for {iterations} iterations, and {limits} are done")
        mechanism = self._mechanism
        salted = mechanism.salted(self._password.text, _decoded(found["salt"]), iterations)
        client_key = mechanism.hmac(salted, b"Client Key")
        unproven = f"c={b64encode(b'n,,').decode()},r={nonce}"
        said = f"{self._bare},{found[0]},{unproven}".encode()
        self._signature = mechanism.hmac(mechanism.server_key(salted), said)
        proof = _xor(client_key, mechanism.hmac(mechanism.hash(client_key), said))
        return f"{unproven},p={b64encode(proof).decode()}".encode()


def _match(pattern: re.Pattern[str], token: bytes, what: str) -> re.Match[str]:
    if len(token) > MAX_MESSAGE_BYTES:
        raise SaslError(f"Authentication failed: {len(token)} bytes are too many for a {what} in SCRAM")
    try:
        found = pattern.fullmatch(token.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise SaslError(f"Authentication failed: this is no {what} in SCRAM")
    return found


def _plain_name(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _extensions(text: str) -> dict[str, str]:
    pairs = [one.partition("=") for one in text.split(",") if one]
    return {name: value for name, _, value in pairs}


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise SaslError("Authentication failed: what should be base64 is not") from None


def _xor(one: bytes, other: bytes) -> bytes:
    """Of another length than a hash nothing can be the proof."""
    if len(one) != len(other):
        raise SaslError("Authentication failed: a proof of a wrong length")
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
