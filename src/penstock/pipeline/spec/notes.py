"""What is wrong with the parts of a file is noted while they are read, each with its place, and told at once."""

from collections.abc import Iterable, Mapping

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spec.declared_options import as_text, shown
from penstock.pipeline.spec.places import Places, Way


class Notes:
    """Of the pipeline `name`."""

    def __init__(self, name: str, places: Places) -> None:
        self._name = name
        self.places = places
        self._problems: list[str] = []

    def note(self, problem: str, *way: str | int) -> None:
        self._problems.append(f"{self.places.of(way) or f'Pipeline {self._name}'}: {problem}")

    def note_all(self, problems: Iterable[tuple[Way, str]]) -> None:
        for way, problem in problems:
            self.note(problem, *way)

    def raise_problems(self) -> None:
        """PipelineError with a line for each."""
        if self._problems:
            raise PipelineError("\n".join(self._problems))

    def texts(self, part: str, declared: object, way: Way) -> dict[str, str]:
        """The options of a part."""
        if not isinstance(declared, Mapping):
            self.note(f"{part} must be a table of options, not {shown(declared)}.", *way)
            return {}
        found: dict[str, str] = {}
        for key, value in declared.items():
            if value is None:
                self.note(f"{key} is empty: give it a value, or leave it out.", *way, str(key))
            else:
                found[str(key)] = as_text(value)
        return found
