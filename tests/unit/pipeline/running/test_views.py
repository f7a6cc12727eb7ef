"""Functions that a pipeline names."""

import json
import sys
from pathlib import Path

from penstock.pipeline.running.views import function_named
from penstock.pipeline.spec.files import load_spec

TEXT = """
SOURCE = {"subscribe": "a", "bootstrap.servers": "a:1"}
SINK = {"topic": "b"}
SQL = "SELECT * FROM source"

def who():
    return "NAME"
"""


def test_each_pipeline_finds_its_own_functions_beside_another_of_the_same_file_name(tmp_path: Path) -> None:
    """They may share a driver; and none takes the place of a module that others import."""
    files = [tmp_path / folder / name for name in ("shop.py", "json.py") for folder in ("one", "two")]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text(TEXT.replace("NAME", str(file)))
    for file in [*files, *files]:
        load_spec(file)
    found = [function_named(f"{file.stem}:who", "step", file) for file in files]
    assert [function() for function in found] == [str(file) for file in files]
    assert sys.modules["json"] is json
    assert len({function.__module__ for function in found}) == len(files), "they are pickled with their module"
    assert function_named("json:dumps", "step", None) is json.dumps
