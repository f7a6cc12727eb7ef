"""Reads a pipeline from a file: YAML, or Python with a function from DataFrame to DataFrame."""

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spec import PARTS, PipelineSpec, pipeline_spec

FUNCTION = "pipeline"


def load_spec(path: Path) -> PipelineSpec:
    """PipelineError for a file that is not there or no pipeline; errors of the Python code itself come as they are."""
    if not path.is_file():
        raise PipelineError(f"There is no file {path}.")
    if path.suffix == ".py":
        return _from_python(path)
    if path.suffix in (".yaml", ".yml"):
        return _from_yaml(path)
    raise PipelineError(f"{path}: a pipeline is a .yaml, .yml or .py file.")


def _from_yaml(path: Path) -> PipelineSpec:
    try:
        import yaml
    except ImportError:
        raise PipelineError("Reading YAML needs PyYAML; install it with: pip install 'penstock[spark]'") from None
    try:
        parts = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise PipelineError(f"{path}: {' '.join(str(error).split())}.") from None
    if not isinstance(parts, Mapping):
        raise PipelineError(f"{path}: a pipeline is a table with the parts {', '.join(PARTS)}.")
    return pipeline_spec(path.stem, {str(key): value for key, value in parts.items()})


def _from_python(path: Path) -> PipelineSpec:
    module = _run(path)
    parts = {part: getattr(module, part.upper()) for part in PARTS if hasattr(module, part.upper())}
    transform = getattr(module, FUNCTION, None)
    if transform is not None and not callable(transform):
        raise PipelineError(f"{path}: {FUNCTION} must be a function from DataFrame to DataFrame.")
    if transform is None and "sql" not in parts:
        raise PipelineError(f"{path}: it needs a function {FUNCTION}(source) that returns a DataFrame, or SQL = '…'.")
    return pipeline_spec(path.stem, parts, transform)


def _run(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
