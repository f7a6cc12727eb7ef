"""Folders of the source import each other one way, and none has more files than somebody can look through."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.architecture.test_circles import SOURCE, circle, graph, modules

FILES = 40
GENERATED = SOURCE / "penstock" / "protocol" / "messages"


def folders(source: Path) -> Mapping[Path, set[Path]]:
    """Which folder has files that import files of which others; `__main__` only calls the command line."""
    files = modules(source)
    edges: dict[Path, set[Path]] = defaultdict(set)
    for name, imported in graph(source).items():
        if files[name].name != "__main__.py":
            edges[files[name].parent] |= {files[one].parent for one in imported} - {files[name].parent}
    return edges


def test_no_folder_imports_itself_in_the_end() -> None:
    named = {str(folder): set(map(str, others)) for folder, others in folders(SOURCE).items()}
    assert circle(named) == []


def test_a_circle_of_folders_is_found_though_its_files_have_none(tmp_path: Path) -> None:
    for folder, texts in {"a": {"one": "import b.one", "two": ""}, "b": {"one": "import a.two"}}.items():
        (tmp_path / folder).mkdir()
        for name, text in texts.items():
            (tmp_path / folder / f"{name}.py").write_text(text + "\n")
    assert circle(graph(tmp_path)) == []
    assert set(map(Path, circle({str(one): set(map(str, its)) for one, its in folders(tmp_path).items()}))) == {
        tmp_path / "a",
        tmp_path / "b",
    }


@pytest.mark.parametrize("folder", sorted({path.parent for path in SOURCE.rglob("*.py")}), ids=lambda path: path.name)
def test_a_folder_can_be_looked_through(folder: Path) -> None:
    files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert folder == GENERATED or len(files) <= FILES
