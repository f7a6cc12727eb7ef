"""What a certificate says, read from its DER: whom it names, where that one is found, until when it holds.

The subject is written as Java writes it, so that copied rules find the same name, by RFC 2253: the last part first,
commas between parts, plus signs within one. A type without a name there is its number, and the value then is DER in
hex, as is every value that is no text. `=` and `#` are escaped as well.
"""

from calendar import timegm
from collections.abc import Iterator
from ipaddress import ip_address
from time import strptime
from typing import Final, NamedTuple

NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
"""What RFC 2253 has names for."""
TEXTS: Final = (12, 19, 20, 22, 27, 30)
"""What Java takes for text, and reads as UTF-8, whatever it is."""
_VERSION, _EXTENSIONS, _SHORT_TIME = 0xA0, 0xA3, 0x17
"""Tags."""
_HOST, _ADDRESS = 0x82, 0x87
_ISSUER, _VALIDITY, _SUBJECT = 2, 3, 4
"""Places among the fields, behind the version."""
_OTHER_NAMES: Final = bytes((0x55, 0x1D, 0x11))
"""The number of that extension."""
DAMAGED: Final = "the certificate is damaged"
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANK: Final = " \r"


class Element(NamedTuple):
    tag: int
    content: bytes
    whole: bytes


def subject_of(certificate: bytes) -> str:
    """Of a certificate as DER. ValueError if it is damaged."""
    return _name(field_of(certificate, _SUBJECT))


def issuer_of(certificate: bytes) -> str:
    """Who has signed it. ValueError if it is damaged."""
    return _name(field_of(certificate, _ISSUER))


def other_names_of(certificate: bytes) -> frozenset[bytes]:
    """The hosts and addresses that it names, as DER. ValueError if it is damaged."""
    rest = _fields(certificate)[_SUBJECT + 2 :]
    for extension in (one for part in rest if part.tag == _EXTENSIONS for one in _within(part)):
        kind, *_, value = elements(extension.content)
        if kind.content == _OTHER_NAMES:
            return frozenset(one.whole for one in _within(value))
    return frozenset()


def names_in(certificate: bytes) -> list[str]:
    """The hosts and addresses, as people write them. ValueError if it is damaged."""
    found = [first(name) for name in other_names_of(certificate)]
    names = sorted(one.content.decode("ascii", "replace") for one in found if one.tag == _HOST)
    return names + sorted(str(ip_address(one.content)) for one in found if one.tag == _ADDRESS)


def begins_s(certificate: bytes) -> int:
    """Seconds since 1970. ValueError if it is damaged."""
    begin, _ = elements(field_of(certificate, _VALIDITY).content)
    return _seconds(begin)


def expires_s(certificate: bytes) -> int:
    """Seconds since 1970. ValueError if it is damaged."""
    _, end = elements(field_of(certificate, _VALIDITY).content)
    return _seconds(end)


def _seconds(time: Element) -> int:
    text = time.content.decode("ascii", "replace")
    if time.tag == _SHORT_TIME:
        text = f"{'20' if text < '50' else '19'}{text}"
    return timegm(strptime(text, "%Y%m%d%H%M%SZ"))


def _name(field: Element) -> str:
    return ",".join(_part(each) for each in reversed(list(elements(field.content))))


def field_of(certificate: bytes, number: int) -> Element:
    """What is signed, by its place behind the version. ValueError."""
    fields = _fields(certificate)
    if len(fields) <= number:
        raise ValueError(DAMAGED)
    return fields[number]


def _fields(certificate: bytes) -> list[Element]:
    """Those that are signed, without the version in front of them."""
    fields = list(_within(first(certificate)))
    return fields[1:] if fields and fields[0].tag == _VERSION else fields


def _within(element: Element) -> Iterator[Element]:
    """The elements of the first element within this one."""
    return elements(first(element.content).content)


def first(content: bytes) -> Element:
    """The first element of DER. ValueError."""
    for element in elements(content):
        return element
    raise ValueError(DAMAGED)


def elements(content: bytes) -> Iterator[Element]:
    """The elements of DER that stand one after the other. ValueError."""
    at = 0
    while at < len(content):
        if len(content) < at + 2:
            raise ValueError(DAMAGED)
        tag, size, begin = content[at], content[at + 1], at + 2
        if size & 0x80:
            begin += size & 0x7F
            size = int.from_bytes(content[at + 2 : begin], "big")
        if tag & 0x1F == 0x1F or begin + size > len(content):
            raise ValueError(DAMAGED)
        yield Element(tag, content[begin : begin + size], content[at : begin + size])
        at = begin + size


def _part(part: Element) -> str:
    return "+".join(_pair(each) for each in elements(part.content))


def _pair(pair: Element) -> str:
    kind, value = elements(pair.content)
    number = _number(kind.content)
    name = NAMES.get(number)
    if name is None or value.tag not in TEXTS:
        return f"{name or number}=#{value.whole.hex()}"
    return f"{name}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _number(content: bytes) -> str:
    """An object identifier with dots."""
    numbers, number = list[int](), 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise ValueError(DAMAGED)
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escaped(text: str) -> str:
    lead = len(text) - len(text.lstrip(_BLANK))
    trail = len(text.rstrip(_BLANK))
    return "".join(_character(one, at < lead or at >= trail) for at, one in enumerate(text))


def _character(one: str, is_outer_blank: bool) -> str:
    if one == "\0":
        return "\\00"
    return f"\\{one}" if is_outer_blank or one in _ESCAPED else one
