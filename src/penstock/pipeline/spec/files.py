"""Reads a pipeline from a file: YAML, or Python with a function from DataFrame to DataFrame.

A Python file may make functions for Spark at its top (`@udf`), which needs a session. So the session is started first,
with the name and the settings that can be read without running the file.
"""

import ast
import hashlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spec.given_values import with_values
from penstock.pipeline.spec.parts import PARTS, pipeline_spec, texts
from penstock.pipeline.spec.pipeline import PipelineSpec
from penstock.pipeline.spec.places import Places, places_of_literals
from penstock.pipeline.spec.user_code import described
from penstock.pipeline.spec.yaml_text import read_yaml
from penstock.protocol.value import Value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Values = Mapping[str, str]
"""Of `${NAME}`, by their names."""
NONE: Values = {}
FUNCTION = "pipeline"
NAMES = {part.upper(): part for part in PARTS}
"""Of the parts in a Python file."""
_modules: dict[Path, ModuleType] = {}


class SessionSpec(Value):
    name: str
    spark: Mapping[str, str]


def session_spec(path: Path, values: Values = NONE) -> SessionSpec:
    """A YAML file is checked as a whole."""
    if path.suffix == ".py" and path.is_file():
        return _session_spec_of_python(path, values)
    spec = load_spec(path, values)
    return SessionSpec(spec.name, spec.spark)


def declared_in(path: Path, values: Values = NONE) -> PipelineSpec:
    """What workers must know before they share the sinks. Python code is not run: its sinks must be literals."""
    if path.suffix != ".py" or not path.is_file():
        return load_spec(path, values)
    literals = {NAMES[name]: value for name, value in _literals(path).items() if name in NAMES}
    if "sink" not in literals or not {"source", "sources"} & literals.keys():
        raise PipelineError(
            f"{path}: write SOURCE and SINK out as literals: workers share the sinks before the file is run."
        )
    return pipeline_spec(path.stem, literals, _not_run, _places(path), values)


def _not_run(**_: object) -> "DataFrame":
    """Stands for the function of a file that is not run."""
    raise NotImplementedError


def load_spec(path: Path, values: Values = NONE) -> PipelineSpec:
    """PipelineError for a missing file, for one that is no pipeline, and for Python code that fails."""
    if not path.is_file():
        raise PipelineError(f"There is no file {path}.")
    if path.suffix == ".py":
        return _from_python(path, values)
    if path.suffix in (".yaml", ".yml"):
        return load_yaml(text_in(path), path.stem, str(path), values)
    raise PipelineError(f"{path}: a pipeline is a .yaml, .yml or .py file.")


def text_in(path: Path) -> str:
    """PipelineError where the file cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path} cannot be read: {error}.") from None


def load_yaml(text: str, name: str, place: str = "the pipeline", values: Values = NONE) -> PipelineSpec:
    """`name` is the default; PipelineError names the `place`."""
    parts, places = read_yaml(text, place)
    if not isinstance(parts, Mapping):
        raise PipelineError(f"{place}: a pipeline is a table with the parts {', '.join(PARTS)}.")
    return pipeline_spec(name, parts, places=places, values=values)


def _from_python(path: Path, values: Values) -> PipelineSpec:
    module = _run(path)
    parts = {part: getattr(module, name) for name, part in NAMES.items() if hasattr(module, name)}
    transform = getattr(module, FUNCTION, None)
    if transform is not None and not callable(transform):
        raise PipelineError(f"{path}: {FUNCTION} must be a function from DataFrame to DataFrame.")
    if transform is None and not {"sql", "steps"} & parts.keys():
        raise PipelineError(
            f"{path}: it needs a function {FUNCTION}(source) that returns a DataFrame, or SQL = '…', or STEPS."
        )
    spec = pipeline_spec(path.stem, parts, transform, _places(path), values).replace(file=path)
    if SessionSpec(spec.name, spec.spark) != _session_spec_of_python(path, values):
        raise PipelineError(
            f"{path}: write NAME and SPARK out as literals: Spark is started with them before the file is run."
        )
    return spec


def _session_spec_of_python(path: Path, values: Values) -> SessionSpec:
    declared = {NAMES[name]: value for name, value in _literals(path).items() if name in NAMES}
    parts, _ = with_values(declared, values)  # what is wrong is told when the file is read as a whole
    return SessionSpec(str(parts.get("name", path.stem)), texts(path.stem, "spark", parts.get("spark", {})))


def _literals(path: Path) -> dict[str, object]:
    """The file's constants, without running it; only literals."""
    declared: dict[str, object] = {}
    for statement in _parsed(path).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            with suppress(ValueError):
                declared[statement.targets[0].id] = ast.literal_eval(statement.value)
    return declared


def _places(path: Path) -> Places:
    return places_of_literals(str(path), _parsed(path), NAMES)


def _parsed(path: Path) -> ast.Module:
    with _own_errors(path):
        return ast.parse(path.read_text(encoding="utf-8"), str(path))


@contextmanager
def _own_errors(path: Path) -> Iterator[None]:
    """Adds the line of the file where an error arose."""
    try:
        yield
    except PipelineError:
        raise
    except Exception as error:
        raise PipelineError(described(error, path) or f"{path}: {type(error).__name__}: {error}") from error


def module_of(path: Path) -> ModuleType | None:
    """Of a pipeline's own file that was run; others in this process may have files of the same name."""
    return _modules.get(path)


def _run(path: Path) -> ModuleType:
    """Under the file's name, unless another module has that."""
    is_free = sys.modules.get(path.stem) is module_of(path)  # or both are None
    name = path.stem if is_free else f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = _modules[path] = module
    with _own_errors(path):
        spec.loader.exec_module(module)
    if find_spec("pyspark") is not None:
        from pyspark.cloudpickle import register_pickle_by_value

        register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module
