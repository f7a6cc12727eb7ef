from pathlib import Path

from click.testing import CliRunner, Result

from penstock.cli.main import main


def files(*arguments: str, exit_code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["files", *arguments], prog_name="penstock")
    assert result.exit_code == exit_code, result.output
    return result


def test_files_are_listed_and_copied(tmp_path: Path) -> None:
    listed = [Path(line) for line in files("dashboards").stdout.splitlines()]
    assert "alerts.yml" in [path.name for path in listed]
    files("dashboards", "--copy", str(tmp_path))
    assert sorted(path.name for path in (tmp_path / "dashboards").iterdir()) == [path.name for path in listed]


def test_a_folder_that_is_not_there_names_those_that_are() -> None:
    assert "there is no folder dashboard; there are: dashboards" in files("dashboard", exit_code=1).stderr
