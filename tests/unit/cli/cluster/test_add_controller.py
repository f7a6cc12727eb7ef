"""What `metadata-quorum add-controller` reads of the controller on whose machine it runs."""

from pathlib import Path

from click.testing import CliRunner, Result

from penstock.cli.main import main


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [*map(str, words)])


def test_the_directory_s_id_is_that_of_a_formatted_directory(tmp_path: Path) -> None:
    file = tmp_path / "controller.properties"
    file.write_text(
        f"process.roles=controller\nnode.id=4\nlog.dirs={tmp_path / 'log'}\ncontroller.listener.names=CONTROLLER\n"
        "listeners=CONTROLLER://127.0.0.1:9093\ncontroller.quorum.bootstrap.servers=127.0.0.1:9093\n"
    )
    adding = "metadata-quorum", "add-controller", "--dry-run", "--config", file
    refused = run(*adding)
    assert refused.exit_code == 1
    assert "has no directory id: format it and start the controller" in refused.output
    formatted = run("storage", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", file, "--no-initial-controllers")
    assert not formatted.exit_code, formatted.output
    (directory_id,) = [
        line.removeprefix("directory.id=")
        for line in (tmp_path / "log" / "meta.properties").read_text().splitlines()
        if line.startswith("directory.id=")
    ]
    assert run(*adding).output == (
        f"DRY RUN of adding controller 4 with directory id {directory_id} and endpoints: CONTROLLER://127.0.0.1:9093\n"
    )
