"""The configuration of a pipeline's job, and what a worker says of its driver."""

from typing import Final

from penstock.pipeline.options.values import nearest
from penstock.pipeline.server_address import SERVER, server_address
from penstock.protocol.address import parse_bootstrap_servers
from penstock.work.connect.config import ConfigKey


def _check_local(master: str) -> None:
    if not master.startswith("local"):
        raise ValueError(f"{DRIVER}.master={master}: the shared driver's Spark is on the worker's machine, local[N]")


def _check_driver(driver: str) -> None:
    if driver.strip().startswith(SERVER):
        server_address(driver)
    elif driver not in (OWN, SHARED):
        said = driver.partition(";")[0]  # behind that may be a secret
        raise ValueError(f"{DRIVER}={said}: allowed are {OWN}, {SHARED} and {SERVER}host:port.{nearest(said, CHOICES)}")


def _check_servers(servers: str) -> None:
    if "${" in servers:
        return  # a reference, which a worker looks up
    try:
        parse_bootstrap_servers(servers, default_port=None)
    except ValueError as error:
        raise ValueError(f"bootstrap.servers: {error}") from None


DRAIN_MS: Final = "30000"
"""How long a process that is told to stop may take over its last batch."""
SINKS: Final = "pipeline.sinks"
"""In a task's configuration: the names of its sinks, as JSON."""
TOPICS: Final = "pipeline.topics"
"""Beside them: which topics are `read`, and which one each sink `writes`, as JSON."""
REQUIREMENTS: Final = "pipeline.requirements"
CODE: Final = ("pipeline.code", REQUIREMENTS)
EVERY: Final = "schedule.interval.ms"
VALUES: Final = "set."
"""Before the names of values that the pipeline's file has as `${NAME}`."""
SECRETS: Final = r"(?is)^(spark|set)[.].*(secret|password|token|access[.]?key|credential)"
"""Settings of which Spark 4.3 itself shows no value (spark.redaction.regex), and values of names that say the same."""
DRIVER: Final = "pipeline.driver"
OWN, SHARED = "own", "shared"
"""Or the address of a server of Spark Connect."""
CHOICES: Final = (OWN, SHARED)
AT_SERVER: Final = "PENSTOCK_SPARK_SERVER"
"""The variable that tells a process of a job at which server its queries run, and in which session."""
ALL_CORES: Final = "local[*]"
KEYS: Final = (
    ConfigKey("pipeline", documentation="the pipeline as YAML; or pipeline.file", importance="high"),
    ConfigKey("pipeline.file", documentation="a .yaml or .py file that all workers can read", importance="high"),
    ConfigKey(
        "pipeline.code", documentation="modules that the pipeline imports, as submit packs them", importance="low"
    ),
    ConfigKey(REQUIREMENTS, documentation="packages that it needs, a line NAME==VERSION for each"),
    ConfigKey("checkpoint.root", documentation="a directory that all workers see: it has a checkpoint for each sink"),
    ConfigKey("master", default=ALL_CORES, documentation="where Spark runs"),
    ConfigKey(
        "bootstrap.servers", documentation="the cluster, instead of what the pipeline says", check=_check_servers
    ),
    ConfigKey(
        EVERY, "long", least=1000, documentation="a pipeline that ends with what is there is run again so often, in ms"
    ),
    ConfigKey(
        DRIVER,
        documentation="a process of its own for each task, the driver that the worker's tasks share, or the server of "
        "Spark Connect at sc://host:port",
        check=_check_driver,
    ),
    ConfigKey("deployed", documentation="a time: the latest schemas that were taken before are taken anew"),
)
OF_A_WORKER: Final = (
    ConfigKey(DRIVER, default=OWN, documentation="the same, where a job says nothing", check=_check_driver),
    ConfigKey(
        f"{DRIVER}.master",
        default=ALL_CORES,
        documentation="the cores of the shared driver: local[N]",
        check=_check_local,
    ),
)
"""Beside `pipeline.driver.spark.…`, the settings of Spark that the shared driver has."""
