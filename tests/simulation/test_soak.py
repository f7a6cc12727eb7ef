"""The soak of the machines draws seeds of every world there is, and tells which fails."""

import re
from pathlib import Path

import pytest
from tests.simulation import soak

WORLDS = re.compile(r"^def (simulate\w*|simulated)\(seed: int", re.MULTILINE)


def test_each_world_is_there() -> None:
    told = Path(soak.__file__).read_text()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        if file.name.startswith("test_") or file.name == "soak.py":
            continue
        for name in WORLDS.findall(file.read_text().replace("(\n    seed", "(seed")):
            module = ".".join(file.with_suffix("").parts[file.parts.index("tests") :])
            package, _, last = module.rpartition(".")
            imported = re.search(rf"^from {package} import (?:.*, )?{last}(?: as (\w+))?(?:,|$)", told, re.MULTILINE)
            assert imported, f"{module} is not imported"
            assert f"{imported[1] or last}.{name}" in told, f"{module}.{name} is in no row"


@pytest.mark.parametrize("found", [["it is lost"], AssertionError("it is lost")])
def test_a_seed_that_fails_is_told(found: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def simulate(seed: int) -> object:
        if seed < 7:
            return []
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setitem(soak.WORLDS, "work", simulate)
    soak.simulated("work", range(7))
    with pytest.raises(AssertionError, match=r"work, seed 7: AssertionError: .*it is lost"):
        soak.simulated("work", range(5, 9))
