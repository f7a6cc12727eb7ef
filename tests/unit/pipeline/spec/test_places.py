"""Where the parts of a Python file stand, and the lines of its texts."""

import ast

import pytest

from penstock.pipeline.spec.files import load_yaml
from penstock.pipeline.spec.places import Place, places_of_literals

FILE = '''
SOURCE = {
    "subscribe": "clicks",
    "servers": ["a:1", "b:1"],
}
SQL = """
  SELECT *
  FROM source"""
ONE = "SELECT 1"
WRAPPED = """a\\
b"""
OTHER = 5
ESCAPED = """a\\nb
c"""
COUNT = {"n": 5, "t": "x"}
A.b = C[0] = 1
D, E = 1, 2
'''


def test_places_are_those_of_the_file() -> None:
    names = {
        "SOURCE": "source",
        "SQL": "sql",
        "ONE": "one",
        "WRAPPED": "wrapped",
        "ESCAPED": "escaped",
        "COUNT": "count",
    }
    places = places_of_literals("job.py", ast.parse(FILE), names)
    assert places.known == {
        ("source",): Place(2, 1),
        ("source", "subscribe"): Place(3, 5),
        ("source", "servers"): Place(4, 5),
        ("source", "servers", 0): Place(4, 17),
        ("source", "servers", 1): Place(4, 24),
        ("sql",): Place(6, 1),
        ("one",): Place(9, 1),
        ("wrapped",): Place(10, 1),
        ("escaped",): Place(13, 1),
        ("count",): Place(15, 1),
        ("count", "n"): Place(15, 10),
        ("count", "t"): Place(15, 18),
    }
    assert places.texts == {
        ("source", "subscribe"): (Place(3, 19),),
        ("source", "servers", 0): (Place(4, 18),),
        ("source", "servers", 1): (Place(4, 25),),
        ("sql",): (Place(6, 10), Place(7, 1), Place(8, 1)),
        ("one",): (Place(9, 8),),
        ("wrapped",): (Place(10, 14),),
        ("escaped",): (Place(13, 14),),
        ("count", "t"): (Place(15, 24),),
    }


def test_what_has_no_place_has_that_of_what_is_around_it() -> None:
    places = places_of_literals("job.py", ast.parse(FILE), {"SOURCE": "source"})
    assert places.of(("source", "servers", 1)) == f"job.py, {Place(4, 24)}"
    assert places.of(("source", "other", "deep")) == f"job.py, {Place(2, 1)}"
    assert places.of(("sink",)) == ""
    assert places.of_text(("source",)) is None


@pytest.mark.parametrize(
    ("sql", "places"),
    [
        ("sql: SELECT 1\n", (Place(8, 6),)),
        ("sql: 'SELECT 1'\n", (Place(8, 7),)),
        ("sql: |\n  SELECT *\n  FROM source\n", (Place(9, 3), Place(10, 3))),
        (
            "sql: |\n\n    SELECT *\n\n    FROM source\ntrigger: 1 second\n",
            tuple(Place(line, 5) for line in range(9, 13)),
        ),
    ],
)
def test_the_lines_of_a_text_in_yaml(sql: str, places: tuple[Place, ...]) -> None:
    text = "source:\n  subscribe: a\n  bootstrap.servers: a:1\nsink:\n  topic: b\n\n\n"
    place = load_yaml(text + sql, "job", "job.yaml").sql_place
    assert place is not None
    assert (place.file, place.lines) == ("job.yaml", places)
