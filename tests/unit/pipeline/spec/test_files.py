"""Files of pipelines: which are run, under which name, and what is known of one before it is."""

import sys
from pathlib import Path

import pytest

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spec.files import declared_in, load_spec, load_yaml, module_of, session_spec, text_in

PARTS = 'SOURCE = {"subscribe": "a"}\nSINK = {"topic": "b"}\n'
FUNCTION = "def pipeline(source):\n    return source\n"
YAML = "source: {subscribe: a}\nsink: {topic: b}\n"


def written(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


def test_a_file_has_its_own_name_unless_another_module_has_it(tmp_path: Path) -> None:
    first, second, known = (
        written(tmp_path / folder, f"{name}.py", PARTS + FUNCTION)
        for folder, name in (("one", "a_job_of_its_own"), ("two", "a_job_of_its_own"), ("three", "json"))
    )
    for _ in range(2):  # the same file may be read again
        load_spec(first)
        assert module_of(first) is sys.modules["a_job_of_its_own"]
        assert module_of(first).__file__ == str(first)  # type: ignore[union-attr]
    json = sys.modules["json"]
    for path, stem in ((second, "a_job_of_its_own_"), (known, "json_")):
        load_spec(path)
        module = module_of(path)
        assert module is not None
        assert (module.__file__, module.__name__[: len(stem)], len(module.__name__)) == (
            str(path),
            stem,
            len(stem) + 12,
        )
        assert sys.modules[module.__name__] is module
    assert sys.modules["json"] is json
    assert sys.modules["a_job_of_its_own"] is module_of(first)
    assert module_of(tmp_path / "other.py") is None


def test_what_a_file_defines_goes_to_workers_by_value(tmp_path: Path) -> None:
    pickling = pytest.importorskip("pyspark.cloudpickle.cloudpickle")
    path = written(tmp_path, "a_job_for_workers.py", PARTS + FUNCTION)
    load_spec(path)
    assert "a_job_for_workers" in pickling.list_registry_pickle_by_value()


def test_what_is_no_part_of_a_file_may_be_anything(tmp_path: Path) -> None:
    others = "import os\nA, B = 1, 2\nos.nothing_of_ours = C = [0]\nC[0] = 1\nD: int = 1\nNAME = 'job'\nE = str(1)\n"
    path = written(tmp_path, "a_job_with_more.py", others + PARTS + FUNCTION)
    assert load_spec(path).name == declared_in(path).name == session_spec(path).name == "job"


@pytest.mark.parametrize(
    ("text", "is_known"),
    [
        (PARTS, True),
        (PARTS + "raise ValueError\n", True),
        (PARTS.replace("SOURCE = {", 'SOURCES = {"x": {').replace('"a"}', '"a"}}'), True),
        ('SINK = {"topic": "b"}\n', False),
        ('SOURCE = {"subscribe": "a"}\n', False),
        ("", False),
        (PARTS.replace('"b"', "str(1)"), False),
    ],
)
def test_sinks_are_known_before_a_file_runs(tmp_path: Path, text: str, is_known: bool) -> None:
    path = written(tmp_path, "job.py", text)
    if not is_known:
        with pytest.raises(PipelineError, match=r"job\.py: write SOURCE and SINK out as literals: workers share"):
            declared_in(path)
        return
    spec = declared_in(path)
    assert [sink.name for sink in spec.sinks] == ["b"]
    assert callable(spec.transform)
    with pytest.raises(NotImplementedError):
        spec.transform()


def test_a_file_of_yaml_says_everything_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, "job.yml", YAML)
    assert declared_in(path) == load_spec(path) == load_yaml(YAML, "job", str(path))
    for missing in (tmp_path / "none.py", tmp_path / "none.yaml"):
        for way in (declared_in, load_spec, session_spec):
            with pytest.raises(PipelineError, match=r"^There is no file .*none\."):
                way(missing)


def test_settings_of_a_session_that_are_none(tmp_path: Path) -> None:
    path = written(tmp_path, "job.py", "SPARK = 5\n" + PARTS + FUNCTION)
    with pytest.raises(PipelineError, match=r"^Pipeline job: spark must be a table of options, not 5\.$"):
        session_spec(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PARTS, "it needs a function pipeline(source) that returns a DataFrame, or SQL = '…', or STEPS."),
        (PARTS + "pipeline = 5\n", "pipeline must be a function from DataFrame to DataFrame."),
    ],
)
def test_a_file_needs_something_to_do(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(PipelineError) as raised:
        load_spec(written(tmp_path, "job_without.py", text))
    assert str(raised.value) == f"{tmp_path / 'job_without.py'}: {words}"
    for more in ('SQL = "SELECT 1"\n', 'STEPS = {"s": "SELECT 1"}\nSINK = {"topic": "b", "from": "s"}\n'):
        path = written(tmp_path, "job_with.py", PARTS + more)
        assert load_spec(path).file == path


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(b"\xff\xfe")
    for broken in (path, tmp_path):
        with pytest.raises(PipelineError, match="cannot be read: "):
            text_in(broken)
