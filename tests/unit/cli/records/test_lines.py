"""Lines in and out, as the console tools of Kafka read and write them."""

import json

import pytest

from penstock.cli.records.lines import LineFormat, LineFormatError, ParsedLine, RecordFormat, record_as_json
from penstock.client.values import ConsumedRecord

RECORD = ConsumedRecord("t", 2, 9, 1_000, b"k", b"v", [("h", b"1"), ("n", None)])
EVERYTHING = {f"print.{name}": "true" for name in ("timestamp", "partition", "offset", "headers", "key", "value")}


def test_a_line_is_a_value() -> None:
    assert LineFormat().parse(b"a\tb:c") == ParsedLine(None, b"a\tb:c", [])


def test_key_and_headers_stand_before_the_value() -> None:
    line_format = LineFormat.from_properties(
        {"parse.key": "true", "key.separator": "=>", "parse.headers": "true", "headers.delimiter": "|"}
    )
    assert line_format.parse(b"a:1,b:x:y|k=>v=>w") == ParsedLine(b"k", b"v=>w", [("a", b"1"), ("b", b"x:y")])


def test_the_marker_stands_for_null_everywhere() -> None:
    line_format = LineFormat.from_properties({"parse.key": "true", "parse.headers": "true", "null.marker": "-"})
    assert line_format.parse(b"-\t-\t-") == ParsedLine(None, None, [])
    assert line_format.parse(b"a:-\tk\t-") == ParsedLine(b"k", None, [("a", None)])


def test_an_escaped_tab_is_a_tab() -> None:
    assert LineFormat.from_properties({"key.separator": "\\t"}).key_separator == b"\t"


@pytest.mark.parametrize(("line", "what"), [(b"no key", "key"), (b"h\tk v", "name of a header")])
def test_a_separator_that_is_missing_is_named(line: bytes, what: str) -> None:
    line_format = LineFormat(parse_key=True, parse_headers=what != "key", key_separator=b"|")
    with pytest.raises(LineFormatError, match=what):
        line_format.parse(line)


@pytest.mark.parametrize("properties", [{"parse.kee": "true"}, {"parse.key": "yes"}])
def test_a_property_that_makes_no_sense_is_named(properties: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(properties))):
        LineFormat.from_properties(properties)


def test_records_are_written_in_the_order_of_kafkas_console() -> None:
    everything = RecordFormat.from_properties(EVERYTHING)
    assert everything.format(RECORD) == b"CreateTime:1000\tPartition:2\tOffset:9\th:1,n:null\tk\tv\n"
    bare = ConsumedRecord("t", 0, 0, -1, None, None, is_log_append_time=True)
    assert everything.format(bare) == b"NO_TIMESTAMP\tPartition:0\tOffset:0\tNO_HEADERS\tnull\tnull\n"
    assert RecordFormat().format(RECORD) == b"v\n"
    chosen = RecordFormat.from_properties({"print.key": "true", "key.separator": "=", "null.literal": "∅"})
    assert chosen.format(bare) == "∅=∅\n".encode()


def test_json_keeps_every_byte() -> None:
    assert json.loads(record_as_json(RECORD)) == {
        "topic": "t",
        "partition": 2,
        "offset": 9,
        "timestamp": 1_000,
        "timestamp_type": "CreateTime",
        "key": "k",
        "value": "v",
        "headers": [{"name": "h", "value": "1"}, {"name": "n", "value": None}],
    }
    binary = ConsumedRecord("t", 0, 0, 0, b"\xff", "é".encode(), [("h", b"\xfe")], is_log_append_time=True)
    shown = json.loads(record_as_json(binary))
    assert (shown["key_base64"], shown["value"], shown["timestamp_type"]) == ("/w==", "é", "LogAppendTime")
    assert shown["headers"] == [{"name": "h", "value_base64": "/g=="}]
    assert "key" not in shown
