"""`spark-pipeline.yml`: a pipeline of Spark's own kind, which Spark reads and runs; here is what is known before."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spec.files import text_in
from penstock.pipeline.spec.yaml_text import read_yaml
from penstock.protocol.value import Value

NAMES: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")
"""Those that Spark looks for."""


class DeclarativeSpec(Value):
    """`storage` is where its checkpoints are."""

    name: str
    storage: str


def is_declarative(path: Path) -> bool:
    return path.name in NAMES


def declarative_spec(path: Path) -> DeclarativeSpec:
    """PipelineError for what is no such file."""
    declared, _ = read_yaml(text_in(path), str(path))
    known = declared if isinstance(declared, Mapping) else {}
    for part in ("name", "storage"):
        if not isinstance(known.get(part), str):
            raise PipelineError(f"{path}: a declarative pipeline of Spark has a {part}, which is a text.")
    return DeclarativeSpec(known["name"], known["storage"])
