"""A session of an id that is said at a server of Spark Connect: opened, and closed for good with all that runs in it.

A server that has closed a session opens none of that id again, as long as it lives; it stops the session's queries
before it answers.
"""

import os
import re
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from pyspark.cloudpickle import register_pickle_by_value
from pyspark.errors import PySparkException
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession

from penstock.pipeline.errors import OUT_OF_REACH, PipelineError
from penstock.pipeline.server_address import SESSION, USER, server_address
from penstock.pipeline.session import quiet_errors

PATIENCE_S: Final = 20.0
"""How long a server may be out of reach."""
PENSTOCK: Final = "penstock"
"""Sessions are those of a user, so each worker says the same one, whoever has started it."""
CLOSED: Final = "SESSION_CLOSED"
OF_A_SESSION: Final = "spark.sql."
NO_MODULES: Final = ("__init__.py", "__main__.py")
"""Of a folder that is on `sys.path`."""


class Patience(DefaultPolicy):
    """Spark's own waits for ten minutes with each call. Here one time is for all calls: what comes after it fails at
    once, until a call succeeds again.
    """

    def __init__(self, patience_s: float) -> None:
        super().__init__(max_backoff=1000, jitter=0)
        self._patience_s = patience_s
        self._failed_at_s, self._until_s = -patience_s, 0.0

    def can_retry(self, e: BaseException) -> bool:
        if not super().can_retry(e):
            return False
        now_s = time.monotonic()
        if now_s - self._failed_at_s > self._patience_s:
            self._until_s = now_s + self._patience_s
        self._failed_at_s = now_s
        return now_s < self._until_s


def open_session(server: str, session: str, patience_s: float = PATIENCE_S) -> Any:
    """`server` is the address, sc://host:port with what Spark takes behind it. PipelineError where it is wrong; nothing
    is sent yet.
    """
    quiet_errors()
    try:
        place, address = server_address(server).place, address_of(server, session)
    except ValueError as error:
        raise PipelineError(str(error)) from None
    # Functions of columns go by that, and a pipeline's own code finds the session; what it starts learns no token.
    os.environ.update(SPARK_REMOTE=place, SPARK_CONNECT_MODE_ENABLED="1")
    try:
        opened = SparkSession(address)
    except (PySparkException, ValueError) as error:  # its text may have what is behind the place
        raise PipelineError(f"{place}: Spark takes no such address ({type(error).__name__})") from None
    opened.client.set_retry_policies([Patience(patience_s)])
    SparkSession._set_default_and_active_session(opened)
    return opened


def address_of(server: str, session: str) -> str:
    address = server_address(server)
    return str(address.saying(USER, address.user or PENSTOCK).saying(SESSION, session))


def apply(session: Any, settings: Mapping[str, str]) -> None:
    """PipelineError for those that only the server itself can have."""
    for problem in refused_settings(session, settings):
        raise PipelineError(problem)
    for key, value in settings.items():
        session.conf.set(key, value)


def refused_settings(session: Any, settings: Mapping[str, str]) -> list[str]:
    return [
        f"{key} is a setting of the server: who keeps that can say it, and a pipeline there those of Spark SQL that a "
        f"session may change ({OF_A_SESSION}…)."
        for key in settings
        if not (key.startswith(OF_A_SESSION) and session.conf.isModifiable(key))
    ]


def take_along(folder: Path) -> list[str]:
    """From now on functions are sent with what they use of the modules and packages in a folder of `sys.path`, whose
    names are returned, as Spark does with the pipeline's own file. Queries of another process have others of these
    names. Files that are added to a session are no way: Spark 4.3 keeps them from its streams. PipelineError.
    """
    files = [path.relative_to(folder).parts for path in folder.rglob("*.py")]
    names = sorted({first.removesuffix(".py") for first, *_ in files if first not in NO_MODULES})
    names = [name for name in names if name.isidentifier()]  # no other can be imported by a statement
    for name in names:
        try:
            register_pickle_by_value(import_module(name))  # type: ignore[no-untyped-call]  # as Spark has it
        except (Exception, SystemExit) as error:
            raise PipelineError(f"The module {name} of the job cannot be imported: {error!r}") from error
    return names


def missing_there(error: BaseException, modules: Sequence[str]) -> str | None:
    """Where a function that runs at the server has not found one of the job's modules: how it would."""
    if isinstance(error.__cause__, ImportError):
        return None  # here, as the pipeline's own file was read
    for name in modules:
        if re.search(rf"No module named '{re.escape(name)}['.]", str(error)):
            return (
                f"A function that runs at the server looks for {name} there, and finds only what is installed. What is "
                f"imported at the top of the pipeline's file goes along with functions that use it, but for what "
                f"functools.lru_cache wraps; what is imported within a function does not: {error}"
            )
    return None


def close(server: str, session: str, patience_s: float) -> None:
    """Whether it was ever opened or not: what is on the way there and opens it later is refused. SparkConnectException,
    PipelineError.
    """
    opened = open_session(server, session, patience_s)
    try:
        try:
            opened.client.get_configs("spark.sql.session.timeZone")  # a server refuses only what it has opened
        except PySparkException as error:
            if CLOSED not in str(error):
                raise
            return
        opened.client.release_session()
    finally:
        opened.client.close()


def is_out_of_reach(error: BaseException | None) -> bool:
    """Whether an error, or what has caused it, tells that the server does not answer."""
    while error is not None:
        if OUT_OF_REACH in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
